// Renames the scope in a copy of the repository, and tries the copy: lint, types, the tests of two packages, a tarball.
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const REPOSITORY = 'https://github.com/acme/agents'
const { homepage, repository } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const folder = mkdtempSync(join(tmpdir(), 'renamed-'))

try {
  run('git', 'clone', '--quiet', ROOT, folder)
  pnpm('install', '--frozen-lockfile', '--prefer-offline')
  pnpm('rename-scope', '@acme', '--repository', REPOSITORY)
  const leftovers = run('git', 'ls-files')
    .split('\n')
    .filter((file) => isNamedIn(file))
  assert(
    leftovers.length === 0,
    `These files name the old scope or address: ${leftovers.join(', ')}`,
  )
  run('node_modules/.bin/oxlint')
  run('node_modules/.bin/oxfmt', '--check')
  assert(refusesImport(), 'The rules for imports no longer hold: a wrong one passes')
  run('node_modules/.bin/tsc', '-b')
  const tests = [
    'packages/internal/src/error-link.test.ts', // the homepage
    'packages/agents-debugstate',
    'packages/mcp-client/test/idempotency.test.ts',
  ]
  run(
    'node_modules/.bin/vitest',
    'run',
    '--typecheck.enabled=false',
    '--project=isolated',
    '--project=shared',
    ...tests,
  )
  pnpm('--filter', '@acme/mcp-client', 'build')
  pnpm('--filter', '@acme/mcp-client', 'pack', '--pack-destination', folder)
  const manifest = JSON.parse(
    run('tar', '-xOf', 'acme-mcp-client-0.0.0.tgz', 'package/package.json'),
  )
  assert(manifest.name === '@acme/mcp-client', `The tarball is named ${manifest.name}`)
  assert(manifest.homepage.startsWith(`${REPOSITORY}/`), `The tarball names ${manifest.homepage}`)
  console.log('ok    the scope can be renamed')
} finally {
  rmSync(folder, { recursive: true, force: true })
}

function run(command: string, ...args: string[]): string {
  return execFileSync(command, args, { cwd: folder, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
}

function pnpm(...args: string[]): string {
  return run('npx', '--yes', 'pnpm@12', ...args)
}

/** The lockfiles too: they name the packages of the workspace. */
function isNamedIn(file: string): boolean {
  const text = file === '' ? '' : readFileSync(join(folder, file), 'utf8')
  return ['@x/', 'io.github.x-mcp/', repository.url, homepage].some((old) => text.includes(old))
}

/** Returns whether the linter still refuses what ARCHITECTURE.md forbids: a transport that imports the client. */
function refusesImport(): boolean {
  const file = 'packages/mcp-transport/src/forbidden.ts'
  writeFileSync(join(folder, file), "export { McpClient } from '@acme/mcp-client'\n")
  const { status, stdout } = spawnSync('node_modules/.bin/oxlint', [file], { cwd: folder })
  rmSync(join(folder, file))
  return status !== 0 && stdout.includes('no-restricted-imports')
}

function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(message)
}
