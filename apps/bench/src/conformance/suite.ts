import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { dirname, delimiter } from 'node:path'
import { text } from 'node:stream/consumers'
import { HOME } from '../cli.ts'

const SUITE = 'node_modules/@modelcontextprotocol/conformance/dist/index.js'

/** Reading its code takes a third of the time of most runs: once for all. */
const COMPILED = `${HOME}node_modules/.cache/compiled`

/** Longer than anything the suite waits for: it is ended then, and counts as failed. */
const DEADLINE_MS = 90_000

export interface SuiteOutput {
  readonly exitCode: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs the suite's own command line, in the folder of this package. */
export async function runSuite(args: readonly string[]): Promise<SuiteOutput> {
  const child = spawn(process.execPath, [SUITE, ...args], {
    cwd: HOME,
    stdio: ['ignore', 'pipe', 'pipe'],
    // The suite starts the client by the name `node`: it has to be this one.
    env: {
      ...process.env,
      NODE_COMPILE_CACHE: COMPILED,
      PATH: `${dirname(process.execPath)}${delimiter}${process.env['PATH'] ?? ''}`,
    },
    timeout: DEADLINE_MS,
    killSignal: 'SIGKILL',
  })
  const [stdout, stderr] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ])
  return { exitCode: child.exitCode, stdout, stderr }
}
