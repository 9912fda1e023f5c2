import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { isObject } from '../../client/checks.ts'
import { Connection } from '../../debugstate/connection.ts'
import { getOf, messageFrom, postOf } from '../protocol.ts'
import { usageOf } from './process-usage.ts'
import type { ProcessUsage } from './process-usage.ts'

/** Longer than anything that is measured of one, also on a machine that is busy: then it is ended, and so is every wait. */
const LIFE_MS = 60_000
/** After this long without a request a server is idle. */
const IDLE_MS = 1000

/** A server that was started as its users start it, with plain Node. */
export class StartedServer implements AsyncDisposable {
  readonly #child: ChildProcess
  readonly #startedAt: number
  readonly #connection: Connection

  constructor(child: ChildProcess, startedAt: number, connection: Connection) {
    this.#child = child
    this.#startedAt = startedAt
    this.#connection = connection
  }

  /**
   * Starts a script that prints its URL first.
   *
   * @param args the script, and what it is told
   * @throws Error where it does not start
   */
  static async start(args: readonly string[]): Promise<StartedServer> {
    const startedAt = performance.now()
    const child = spawn(process.execPath, args, {
      stdio: ['ignore', 'pipe', 2],
      env: ENVIRONMENT,
      timeout: LIFE_MS,
      killSignal: 'SIGKILL',
    })
    try {
      const { port } = new URL(await firstLine(child))
      return new StartedServer(child, startedAt, await Connection.open(Number(port)))
    } catch (error) {
      await stopped(child)
      throw error
    }
  }

  /** Asks for its health. @returns how long it is since it was started, in milliseconds */
  async healthMs(): Promise<number> {
    const { status } = await this.#connection.ask(getOf('/healthz'))
    if (status !== 200) throw new Error(`A server that has just started says ${status}`)
    return performance.now() - this.#startedAt
  }

  /** Asks for its tools until so many are there: agents elsewhere may come later. @returns likewise */
  async listMs(count: number): Promise<number> {
    for (;;) {
      const { body } = await this.#connection.ask(postOf('modern', { method: 'tools/list', id: 1 }))
      const ms = performance.now() - this.#startedAt
      const answer = messageFrom(body)
      const result = isObject(answer) && isObject(answer['result']) ? answer['result'] : {}
      const found = Array.isArray(result['tools']) ? result['tools'].length : 0
      if (found === count) return ms
    }
  }

  usage(): Promise<ProcessUsage> {
    return usageOf(this.#child.pid ?? Number.NaN)
  }

  /** What it holds when nobody asks for anything. */
  async idleRssBytes(): Promise<number> {
    await new Promise((resolve) => setTimeout(resolve, IDLE_MS))
    return (await this.usage()).rssBytes
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#connection.close()
    await stopped(this.#child)
  }
}

/** Nothing of the bench's own: neither conditions nor caches. */
const ENVIRONMENT = { PATH: process.env['PATH'], HOME: process.env['HOME'] }

async function firstLine(child: ChildProcess): Promise<string> {
  if (child.stdout === null) throw new TypeError('A server is started with a pipe to read from')
  const stop = new AbortController()
  const options = { signal: stop.signal }
  const lines = createInterface({ input: child.stdout })
  try {
    const ended = once(child, 'exit', options).then(([code]) => {
      throw new Error(`A server that was started ended with ${String(code)}`)
    })
    const [line]: unknown[] = await Promise.race([once(lines, 'line', options), ended])
    return String(line)
  } finally {
    stop.abort()
  }
}

async function stopped(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
}
