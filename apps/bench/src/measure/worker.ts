import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { Server as HttpServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { availableParallelism } from 'node:os'
import { HOME } from '../cli.ts'

/** Functions that a worker process offers. Arguments and results travel as JSON. */
export type Api = Readonly<Record<string, (...args: never[]) => unknown>>

export interface WorkerOptions {
  /** The core that the process stays on, where `taskset` exists and there are two cores. */
  readonly core: 0 | 1
  /** Folder for a CPU profile. @default no profile */
  readonly profileTo?: string | undefined
}

/** Longer than any single task. */
const ANSWER_MS = 300_000

/** A process that runs one task at a time. Its type is that of the functions that it serves. */
export class Worker<Served extends Api> implements AsyncDisposable {
  readonly #child: ChildProcess

  /** `command` is a script, relative to the folder of this package, with its arguments. */
  constructor(command: readonly string[], { core, profileTo }: WorkerOptions) {
    const flags = ['--conditions=mcp-source', '--expose-gc']
    if (profileTo !== undefined) flags.push('--cpu-prof', `--cpu-prof-dir=${profileTo}`)
    const node = [process.execPath, ...flags, ...command]
    const canPin = availableParallelism() > 1 && spawnSync('taskset', ['-V']).error === undefined
    const [file = '', ...args] = canPin ? ['taskset', '-c', String(core), ...node] : node
    this.#child = spawn(file, args, { cwd: HOME, stdio: ['ignore', 2, 2, 'ipc'] })
  }

  /**
   * Calls a function of the worker.
   *
   * @throws Error if the function fails, the worker exits, or no answer comes in 5 minutes.
   */
  async call<Name extends keyof Served & string>(
    name: Name,
    ...args: Parameters<Served[Name]>
  ): Promise<Awaited<ReturnType<Served[Name]>>> {
    const child = this.#child
    const stop = new AbortController()
    const options = { signal: AbortSignal.any([AbortSignal.timeout(ANSWER_MS), stop.signal]) }
    try {
      child.send({ name, args })
      const exited = once(child, 'exit', options).then(([code]) => {
        throw new Error(`A worker exited with code ${String(code)} during "${name}"`)
      })
      const [reply] = await Promise.race([once(child, 'message', options), exited])
      if ('failed' in reply) throw new Error(String(reply.failed))
      return reply.done
    } finally {
      stop.abort()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exited = once(this.#child, 'exit')
    if (this.#child.connected) this.#child.disconnect() // the process exits then
    await exited
  }
}

/** In a worker process: runs the functions of `api`, until the parent disconnects. */
export function serve(api: Api): void {
  process.on('message', ({ name, args }: { name: string; args: never[] }) => {
    Promise.try(async () => api[name]?.(...args)).then(
      (done) => process.send?.({ done }),
      (error: unknown) => process.send?.({ failed: error instanceof Error ? error.stack : error }),
    )
  })
  process.once('disconnect', () => process.exit())
}

/** Listens on a free port of 127.0.0.1, and returns it. */
export async function listen(server: HttpServer): Promise<number> {
  server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 })
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

/** CPU time of this process so far, in microseconds. */
export function cpuUs(): number {
  const { user, system } = process.cpuUsage()
  return user + system
}

/** Heap in use, and memory of the process, after garbage was collected. */
export async function memory(): Promise<{ heapBytes: number; rssBytes: number }> {
  for (let turn = 0; turn < 4; turn += 1) {
    // V8 keeps memory in reserve, until this flavor of collection returns it to the system.
    globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' })
    await new Promise(setImmediate)
  }
  const { heapUsed, rss } = process.memoryUsage()
  return { heapBytes: heapUsed, rssBytes: rss }
}
