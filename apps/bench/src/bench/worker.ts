import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { HOME } from '../install.ts'

export interface WorkerOptions {
  /** Script, relative to the folder of this package, and its arguments. */
  readonly command: readonly string[]
  /** The core it stays on, where `taskset` exists and there are two. */
  readonly core: 0 | 1
  /** Folder for a CPU profile. */
  readonly profileTo?: string | undefined
}

/** Longer than any single task: a worker that is silent for so long hangs. */
const ANSWER_MS = 300_000

/** A process of its own that does one task at a time, on demand. */
export class Worker implements AsyncDisposable {
  readonly #child: ChildProcess

  constructor(child: ChildProcess) {
    this.#child = child
  }

  static start({ command, core, profileTo }: WorkerOptions): Worker {
    const flags = ['--conditions=mcp-source', '--expose-gc']
    if (profileTo !== undefined) flags.push('--cpu-prof', `--cpu-prof-dir=${profileTo}`)
    const node = [process.execPath, ...flags, ...command]
    const [file = '', ...args] = canPin() ? ['taskset', '-c', String(core), ...node] : node
    return new Worker(spawn(file, args, { cwd: HOME, stdio: ['ignore', 2, 2, 'ipc'] }))
  }

  /**
   * Hands over a task, and resolves to what the worker says about it.
   *
   * @throws Error if the task failed, or the worker ended.
   */
  async ask(task: object): Promise<unknown> {
    const child = this.#child
    const signal = AbortSignal.timeout(ANSWER_MS)
    const stop = new AbortController()
    const options = { signal: AbortSignal.any([signal, stop.signal]) }
    try {
      child.send(task)
      const ended = once(child, 'exit', options).then(([code]) => {
        throw new Error(`A worker ended with ${String(code)} in the middle of a task`)
      })
      const [reply]: unknown[] = await Promise.race([once(child, 'message', options), ended])
      return replyFrom(reply)
    } finally {
      stop.abort()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const ended = once(this.#child, 'exit')
    if (this.#child.connected) this.#child.disconnect() // it ends by itself then
    await ended
  }
}

function replyFrom(reply: unknown): unknown {
  if (typeof reply === 'object' && reply !== null) {
    if ('done' in reply) return reply.done
    if ('failed' in reply) throw new Error(String(reply.failed))
  }
  throw new Error('A worker said something that is no reply')
}

function canPin(): boolean {
  return availableParallelism() > 1 && spawnSync('taskset', ['-V']).error === undefined
}
