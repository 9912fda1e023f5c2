import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { sourceNode } from '@x/internal/testing'

const main = fileURLToPath(new URL('../src/cli/main.ts', import.meta.url))

/** `debugstate serve` in its own process. */
export interface ServiceProcess extends AsyncDisposable {
  readonly url: string
  readonly child: ChildProcess
  /** Its exit code, or the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals>
  /** Its log up to now. */
  readonly log: string
  /** Resolves when the log contains this text. */
  logged(part: string): Promise<void>
}

/** Starts the command from source, on a free port; resolves when it listens. */
export async function startServiceProcess(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<ServiceProcess> {
  const command = ['--conditions=mcp-source', '--no-warnings', main, 'serve', '--port=0', ...args]
  const child = spawn(sourceNode, command, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env['PATH'] ?? '',
      NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
      ...env,
    },
  })
  let log = ''
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => (log += chunk))
  const ended = once(child, 'close').then(([code, signal]) => code ?? signal)
  const first = once(createInterface(child.stdout), 'line')
  const url = await Promise.race([
    first.then(([line]) => String(line)),
    ended.then(() => Promise.reject(new Error(`It did not start: ${log}`))),
  ])
  return {
    url,
    child,
    ended,
    get log() {
      return log
    },
    async logged(part) {
      while (!log.includes(part)) {
        const more = once(child.stderr, 'data').then(() => true)
        const isAlive = await Promise.race([more, ended.then(() => false)])
        if (!isAlive) throw new Error(`It ended without ${part}: ${log}`)
      }
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await ended
    },
  }
}
