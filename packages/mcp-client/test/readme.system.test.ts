import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { sourceNode } from '@x/internal/testing'
import { expect, test } from 'vitest'
import type { McpClientErrorCode } from '../src/index.ts'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const readme = await readFile(here('../README.md'), 'utf8')
const tasks = await readFile(here('../../../docs/guides/long-tools.md'), 'utf8')

test('the README contains the example file, and what it prints', async () => {
  const example = await readFile(here('example.ts'), 'utf8')
  const args = ['--conditions=mcp-source', '--no-warnings', here('example.ts')]
  const { stdout } = await promisify(execFile)(sourceNode, args)
  const shown = `\`\`\`ts\n${example}\`\`\`\n\n\`\`\`console\n$ node example.ts\n${stdout}\`\`\``
  expect(readme).toContain(shown)
})

test('the README, or the page about tasks, says for every error code what to do', () => {
  // The compiler checks that these are all the codes.
  const codes: Record<McpClientErrorCode, true> = {
    CLOSED: true,
    CONFIG: true,
    INVALID_LIST: true,
    INVALID_OUTPUT: true,
    LIMIT: true,
    NOT_FOUND: true,
    NO_RUN: true,
    OUTCOME_UNKNOWN: true,
    RECORD_UNUSABLE: true,
    REENTRANT: true,
    REJECTED: true,
    SESSION_LOST: true,
    TASK_CANCELLED: true,
    TASK_EXPIRED: true,
    TASK_FAILED: true,
    TASK_INPUT: true,
    TASK_REFERENCE: true,
    TASK_UNKNOWN: true,
    TIMEOUT: true,
    TOOL_LEFT_OUT: true,
    UNAUTHORIZED: true,
    UNEXPECTED_RESPONSE: true,
    UNREACHABLE: true,
  }
  const pageOf = (code: string): string => (code.startsWith('TASK_') ? tasks : readme)
  const missing = Object.keys(codes).filter((code) => !pageOf(code).includes(`\n| \`${code}\``))
  expect(missing).toEqual([])
})
