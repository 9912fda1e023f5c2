import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

import { sourceNode } from '@x/internal/testing'

/** One process of several that are one gateway. */
export interface Replica extends AsyncDisposable {
  readonly url: string
  /** Lines that the process wrote. */
  readonly said: readonly string[]
  /** Resolves when the process has written this line, after the first `after` lines. */
  hears(line: string, after?: number): Promise<void>
  tell(command: string): void
  /** Ends the process after `drained()`, as a restart does: it takes calls until then, and ends those in flight. */
  stop(drained: () => Promise<void>): Promise<void>
  /** Sends SIGKILL. Resolves when the process has ended. */
  kill(): Promise<void>
}

export interface ReplicaSettings {
  readonly redis: string
  readonly prefix?: string
  readonly sessions?: object
  readonly requestsPerMinute?: number
}

export async function startReplica(settings: ReplicaSettings): Promise<Replica> {
  const program = fileURLToPath(new URL('replica-process.ts', import.meta.url))
  const args = ['--conditions=mcp-source', program, JSON.stringify(settings)]
  const child = spawn(sourceNode, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const exited = once(child, 'exit')
  child.stdin.on('error', () => {}) // the process was killed
  const said: string[] = []
  const waiting = new Set<() => void>()
  const lines = createInterface({ input: child.stdout })
  lines.on('line', (line) => {
    said.push(line)
    for (const look of waiting) look()
  })
  const over = once(lines, 'close').then(() => {
    throw new Error(`It ended, and had said: ${said.join(' | ')}`)
  })
  over.catch(() => {}) // reported to those who wait for a line
  const until = <Found>(find: () => Found | undefined): Promise<Found> =>
    Promise.race([
      over,
      new Promise<Found>((resolve) => {
        const look = (): void => {
          const found = find()
          if (found === undefined) return
          waiting.delete(look)
          resolve(found)
        }
        waiting.add(look)
        look()
      }),
    ])
  const port = await until(() => said.find((line) => line.startsWith('port '))?.slice(5))
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    said,
    hears: async (line, after = 0) => {
      await until(() => said.slice(after).find((each) => each === line))
    },
    tell: (command) => void child.stdin.write(`${command}\n`),
    kill: async () => {
      child.kill('SIGKILL')
      await exited
    },
    stop: async (drained) => {
      child.stdin.write('close\n')
      await drained()
      child.stdin.end('drained\n')
      await exited
    },
    [Symbol.asyncDispose]: async () => {
      child.stdin.end('drained\n')
      await exited
    },
  }
}
