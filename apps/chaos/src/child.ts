import { fork } from 'node:child_process'
import type { ChildProcess, Serializable } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { sourceNode } from '@x/internal/testing'

/** The child processes of one run. */
export class Processes {
  readonly #alive = new Set<ChildProcess>()
  readonly #told = new WeakSet<ChildProcess>()
  /** Processes that ended without being told to, with the last that they wrote to standard error. */
  readonly crashes: string[] = []

  get alive(): number {
    return this.#alive.size
  }

  fork(entry: URL, name: string, spec: object): ChildProcess {
    const child = fork(fileURLToPath(entry), [JSON.stringify(spec)], {
      execPath: sourceNode,
      execArgv: ['--conditions=mcp-source', '--expose-gc', '--no-warnings'],
      env: { NODE_COMPILE_CACHE: join(tmpdir(), 'chaos-compile-cache'), ...process.env },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    let stderr = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      stderr = `${stderr}${text}`.slice(-2000)
    })
    this.#alive.add(child)
    child.once('exit', (code, signal) => {
      this.#alive.delete(child)
      if (this.#told.has(child)) return
      this.crashes.push(`${name} ended with ${signal ?? code}: ${stderr.trim().slice(-600)}`)
    })
    return child
  }

  /** SIGKILL. Resolves when the process has gone. */
  async kill(child: ChildProcess): Promise<void> {
    if (!this.#alive.has(child)) return
    this.#told.add(child)
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }

  /** Closes the channel to a process, which ends it. */
  async release(child: ChildProcess): Promise<void> {
    if (!this.#alive.has(child)) return
    this.#told.add(child)
    const exited = once(child, 'exit', { signal: AbortSignal.timeout(5000) })
    child.disconnect()
    await exited.catch(() => {}) // counted as one that is left
  }

  async killAll(): Promise<void> {
    await Promise.all([...this.#alive].map((child) => this.kill(child)))
  }
}

/** The first message of this type; rejects when the process ends before. */
export function messageOf<Message extends { readonly type: string }>(
  child: ChildProcess,
  type: Message['type'],
): Promise<Message> {
  return new Promise((resolve, reject) => {
    const ended = (): void => reject(new Error('The process ended first'))
    const listener = (message: Serializable): void => {
      if (!isMessage<Message>(message, type)) return
      child.off('message', listener)
      child.off('exit', ended)
      resolve(message)
    }
    child.on('message', listener)
    child.once('exit', ended)
  })
}

function isMessage<Message extends { readonly type: string }>(
  message: Serializable,
  type: Message['type'],
): message is Message & Serializable {
  return typeof message === 'object' && 'type' in message && message.type === type
}
