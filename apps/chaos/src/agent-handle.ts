import type { ChildProcess } from 'node:child_process'
import type { CallRecord } from './checks.ts'
import { messageOf } from './child.ts'
import type { Processes } from './child.ts'
import type { AgentMessage, AgentSpec, DriverMessage, Holdings } from './protocol.ts'

type Message<Type> = Extract<AgentMessage, { readonly type: Type }>

/** Time that a call may take beyond its deadline before the driver stops waiting for it. */
const GIVE_UP_MS = 10_000
/** Time that an agent may take to close its clients. */
const CLOSE_MS = 15_000

/** An agent as the driver sees it: one name, one process after the other. */
export class AgentHandle {
  readonly spec: AgentSpec
  start: Holdings = { heapBytes: 0, resources: {} }
  end: Holdings | undefined
  readonly #processes: Processes
  readonly #entry: URL
  readonly #open = new Map<string, { record: CallRecord; done: () => void }>()
  readonly #records = new Map<string, CallRecord>()
  #child: ChildProcess | undefined

  constructor(processes: Processes, entry: URL, spec: AgentSpec) {
    this.#processes = processes
    this.#entry = entry
    this.spec = spec
  }

  get isRunning(): boolean {
    return this.#child !== undefined
  }

  async launch(): Promise<void> {
    const child = this.#processes.fork(this.#entry, this.spec.name, this.spec)
    child.on('message', (message: AgentMessage) => {
      if (message.type !== 'settled') return
      const { settlement } = message
      this.#records.get(settlement.key)?.settlements.push(settlement)
      this.#open.get(settlement.key)?.done()
    })
    child.once('exit', () => {
      this.#child = undefined
      for (const { record, done } of this.#open.values()) {
        record.killed = true
        done()
      }
    })
    this.start = (await messageOf<Message<'ready'>>(child, 'ready')).holdings
    this.#child = child
  }

  /** Sends a call. Resolves when it has settled, its agent has gone, or nobody waits for it any more. */
  async call(record: CallRecord): Promise<void> {
    const { key, deadlineMs } = record.call
    this.#records.set(key, record)
    let timer: NodeJS.Timeout | undefined
    await new Promise<void>((resolve) => {
      this.#open.set(key, { record, done: resolve })
      timer = setTimeout(resolve, deadlineMs + GIVE_UP_MS)
      if (!this.#send({ type: 'call', call: record.call })) {
        record.killed = true
        resolve()
      }
    })
    clearTimeout(timer)
    this.#open.delete(key)
  }

  jumpClock(ms: number): void {
    this.#send({ type: 'jump-clock', ms })
  }

  async kill(): Promise<void> {
    if (this.#child) await this.#processes.kill(this.#child)
  }

  /** Lets the agent close its clients. `end` is what it holds then. */
  async close(): Promise<void> {
    if (!this.#child) return
    const closed = messageOf<Message<'closed'>>(this.#child, 'closed').catch(() => undefined)
    this.#send({ type: 'close' })
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), CLOSE_MS)
    })
    this.end = (await Promise.race([closed, late]))?.holdings
    clearTimeout(timer)
  }

  async release(): Promise<void> {
    if (this.#child) await this.#processes.release(this.#child)
  }

  #send(message: DriverMessage): boolean {
    if (!this.#child?.connected) return false
    this.#child.send(message, () => {})
    return true
  }
}
