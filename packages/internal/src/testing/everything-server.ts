import type { ChildProcess } from 'node:child_process'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { freePort } from './free-port.ts'

const require = createRequire(import.meta.url)

/** Number of attempts with other ports if another process takes the first one. */
const PORT_ATTEMPTS = 5

/** Ends the child when this process ends, also after SIGKILL, which closes the pipe. */
const END_WITH_PARENT = 'data:text/javascript,process.stdin.resume().on("close",()=>process.exit())'

/** Options of {@link startEverythingServer}. */
export interface EverythingServerOptions {
  /** Time limit of the start, in milliseconds. @default 240_000, which only ends a start that hangs */
  readonly startMs?: number | undefined
  /** Port of a server that has ended; no other port is tried. @default a free port */
  readonly port?: number | undefined
}

/** A running `@modelcontextprotocol/server-everything`. */
export interface EverythingServer extends AsyncDisposable {
  /** URL that ends in `/mcp`. */
  readonly url: string
  readonly pid: number
}

/**
 * Starts `@modelcontextprotocol/server-everything` over Streamable HTTP, as a child process on a free port.
 * Resolves when it accepts requests. Disposing of it kills the child and waits for its exit.
 *
 * @throws if it does not start in `startMs`; the error has its output
 */
export async function startEverythingServer(
  options: EverythingServerOptions = {},
): Promise<EverythingServer> {
  const { startMs = 240_000, port: fixedPort } = options
  const deadline = AbortSignal.timeout(startMs)
  const entry = everythingEntry()

  for (let attempt = 1; ; attempt++) {
    const port = fixedPort ?? (await freePort())
    const child = spawn(
      process.execPath,
      [`--import=${END_WITH_PARENT}`, entry, 'streamableHttp'],
      // Its stdout has complete session ids.
      { stdio: ['pipe', 'ignore', 'pipe'], env: { ...process.env, PORT: String(port) } },
    )
    const outcome = await listening(child, deadline)
    if (outcome === 'listening') {
      return {
        url: `http://127.0.0.1:${port}/mcp`,
        pid: child.pid ?? 0,
        [Symbol.asyncDispose]: () => kill(child),
      }
    }
    await kill(child)
    if (fixedPort !== undefined || !outcome.portTaken || attempt >= PORT_ATTEMPTS) {
      throw new Error(`server-everything did not start: ${outcome.output.trim()}`)
    }
  }
}

/** Command that starts `@modelcontextprotocol/server-everything` on stdio. The server ends when its input ends. */
export function everythingStdioCommand(): { readonly command: string; readonly args: string[] } {
  return { command: process.execPath, args: [everythingEntry(), 'stdio'] }
}

function everythingEntry(): string {
  const manifest = require.resolve('@modelcontextprotocol/server-everything/package.json')
  return join(dirname(manifest), 'dist', 'index.js')
}

/** Resolves when the child listens or has exited, or at the time limit. */
function listening(
  child: ChildProcess,
  deadline: AbortSignal,
): Promise<'listening' | { portTaken: boolean; output: string }> {
  return new Promise((resolve) => {
    let output = ''
    const finish = (): void => {
      deadline.removeEventListener('abort', late)
      resolve({ portTaken: output.includes('already in use'), output })
    }
    const late = (): void => {
      output += '\nIt took too long.'
      finish()
    }
    deadline.addEventListener('abort', late, { once: true })
    child.once('error', (error) => {
      output += error.message
      finish()
    })
    child.once('close', finish)
    // Reads until the child exits: a full pipe would stop it.
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-4_096)
      if (!output.includes('listening on port')) return
      deadline.removeEventListener('abort', late)
      resolve('listening')
    })
  })
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGKILL') // it has no state to store
  await exited
}
