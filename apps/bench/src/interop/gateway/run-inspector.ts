import { execFile } from 'node:child_process'
import { mkdtempDisposable } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import type { Target } from './client-kind.ts'

const run = promisify(execFile)
const LAUNCHER = join(
  dirname(createRequire(import.meta.url).resolve('@modelcontextprotocol/inspector/package.json')),
  'clients/launcher/build/index.js',
)

export interface InspectorOutcome {
  readonly code: number
  /** What it printed, for people and programs. */
  readonly text: string
}

/** The MCP Inspector's command line, as a program calls it, with a home of its own. */
export async function runInspector(
  target: Target,
  args: readonly string[],
): Promise<InspectorOutcome> {
  await using home = await mkdtempDisposable(join(tmpdir(), 'interop-inspector-'))
  const env = { PATH: process.env['PATH'], HOME: home.path, MCP_INSPECTOR_SECRET_STORE: 'memory' }
  const all = [LAUNCHER, '--cli', ...addressOf(target), ...args, '--format', 'json']
  try {
    const { stdout } = await run(process.execPath, all, { env, timeout: 9000 })
    return { code: 0, text: stdout }
  } catch (error) {
    return failureFrom(error)
  }
}

function addressOf(target: Target): readonly string[] {
  if ('command' in target) return [target.command, ...target.args]
  const headers = Object.entries(target.headers ?? {}).map(([name, value]) => `${name}: ${value}`)
  return [target.url, ...(headers.length > 0 ? ['--header', ...headers] : [])]
}

function failureFrom(error: unknown): InspectorOutcome {
  if (!(error instanceof Error)) throw new Error('It failed without an error', { cause: error })
  const code = 'code' in error && typeof error.code === 'number' ? error.code : -1
  const stderr = 'stderr' in error ? String(error.stderr) : ''
  return { code, text: stderr === '' ? error.message : stderr }
}
