import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

/** Types that list codes of errors, of answers and of log entries. `Record` types and unions of other types are left out. */
const LIST =
  /^export type (\w*(?:ErrorCode|ErrorName|FailureReason)) =\n((?:  \|.*\n)+)|readonly code:\n((?: +\|.*\n)+)/gm
/** Answers whose codes have no type: those of the debug-state service, of files, and of JSON-RPC errors. */
const ANSWERS = /^  ([A-Z_]+): \[\d{3}, '|problem\(\d{3}, '([A-Z_]+)'|\{ reason: '([a-z_]+)' \}/gm
const SOURCES = globSync('packages/*/src/**/*.ts', {
  cwd: ROOT,
  exclude: (path) => path.endsWith('.test.ts'),
}).map((path) => readFileSync(`${ROOT}/${path}`, 'utf8'))

const lists = SOURCES.flatMap((text) => [...text.matchAll(LIST)])
const codes = new Set([
  ...lists.flatMap(([, , lines = '', others = '']) =>
    [...(lines + others).matchAll(/^ +\| '(\w+)'/gm)].map(([, code = '']) => code),
  ),
  ...SOURCES.flatMap((text) => [...text.matchAll(ANSWERS)]).map(
    ([, problem, file, reason]) => problem ?? file ?? reason ?? '',
  ),
  'INVALID_DEFINITION', // the only code of its class
])
const sections = [
  ...readFileSync(`${ROOT}/docs/reference/errors.md`, 'utf8').matchAll(/^### (.+)$/gm),
].map(([, title = '']) => title)

test('finds the codes in the sources', () => {
  const names = lists.map(([, name]) => name)
  for (const name of [
    'AuthErrorCode',
    'DebugStateErrorCode',
    'DebugStateServerErrorCode',
    'DebugStateStoreErrorCode',
    'GatewayErrorCode',
    'McpClientErrorCode',
    'McpToolErrorCode',
    'OAuthErrorName',
    'RunFailureReason',
    'TransportErrorCode',
    undefined, // log entries of tools
  ]) {
    expect(names).toContain(name)
  }
  expect([...codes]).toEqual(
    expect.arrayContaining(['STORE_FAILED', 'BAD_NAME', 'unknown_task', 'SERVER_DOWN']),
  )
})

test('each code has one section, and each section a code', () => {
  const wanted = new Set([...codes].map((code) => code.toLowerCase()))
  expect(sections.map((title) => title.toLowerCase()).toSorted()).toEqual([...wanted].toSorted())
  expect(sections.filter((title) => !codes.has(title))).toEqual([])
})
