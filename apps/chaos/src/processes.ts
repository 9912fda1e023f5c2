// Child processes of a run: services, and agents that make calls.
import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { sourceNode } from '@x/internal/testing'
import { deferred } from '@x/mcp-testing'
import type { CallRecord } from './checks.ts'
import type { AgentMessage, AgentSpec, DriverMessage, Holdings } from './protocol.ts'

/** Time that a call may take beyond its deadline before the driver stops waiting for it. */
const GIVE_UP_MS = 10_000
/** Time that an agent may take to close its clients, also on a busy machine. */
const CLOSE_MS = 30_000
/** Time that a process may take to end after its channel was closed. */
const EXIT_MS = 15_000

const running = new Set<ChildProcess>()

/** Number of child processes that run. */
export function runningProcesses(): number {
  return running.size
}

/** Sends SIGKILL to all child processes at once. Resolves when they have ended. */
export async function killAll(): Promise<void> {
  await Promise.all([...running].map(killed))
}

async function killed(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

/** A program that can be killed and started again. */
export class Child {
  readonly name: string
  readonly #program: Program
  #process: ChildProcess | undefined
  #mayEnd = false

  constructor(program: Program) {
    this.name = program.name
    this.#program = program
  }

  get isRunning(): boolean {
    return this.#process !== undefined
  }

  /** Starts the process. Resolves to its first message, which says that it is ready. */
  async start(): Promise<unknown> {
    const { entry, spec, crashes, onMessage } = this.#program
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
    running.add(child)
    this.#mayEnd = false
    const gone = new AbortController()
    child.once('exit', (code, signal) => {
      running.delete(child)
      this.#process = undefined
      const what = `${this.name} ended with ${signal ?? code}: ${stderr.trim().slice(-600)}`
      if (!this.#mayEnd) crashes.push(what)
      gone.abort(new Error(what))
      this.onExit()
    })
    const [message]: unknown[] = await once(child, 'message', { signal: gone.signal })
    child.on('message', onMessage)
    this.#process = child
    return message
  }

  /** SIGKILL. Resolves when the process has ended. */
  async kill(): Promise<void> {
    this.#mayEnd = true
    if (this.#process) await killed(this.#process)
  }

  /** Closes the channel to the process, which ends it. */
  async stop(): Promise<void> {
    this.#mayEnd = true
    if (!this.#process) return
    const exited = once(this.#process, 'exit', { signal: AbortSignal.timeout(EXIT_MS) })
    this.#process.disconnect()
    await exited.catch(() => {}) // a check counts the processes that are left
  }

  /** Returns false when the process does not run. */
  protected send(message: DriverMessage): boolean {
    if (!this.#process?.connected) return false
    this.#process.send(message, () => {})
    return true
  }

  protected onExit(): void {}
}

/** What a {@link Child} runs. */
interface Program {
  /** Name in reports, such as `replica-1`. */
  readonly name: string
  readonly entry: URL
  /** The only argument of the program. */
  readonly spec: object
  /** Gets a line when the process ends although it was not told to. */
  readonly crashes: string[]
  /** Gets each message but the first. */
  readonly onMessage: (message: unknown) => void
}

/** An agent. Its name stays the same when its process is started again. */
export class Agent extends Child {
  readonly spec: AgentSpec
  /** Heap and resources of the process at its start. */
  initial: Holdings = { heapBytes: 0, resources: {} }
  /** Heap and resources of the process after it has closed its clients. */
  final: Holdings | undefined
  readonly #records = new Map<string, CallRecord>()
  /** Ends the wait for a call, by key. */
  readonly #waits = new Map<string, () => void>()
  #closed = deferred<Holdings | undefined>()

  constructor(spec: AgentSpec, program: Pick<Program, 'entry' | 'crashes'>) {
    super({ ...program, name: spec.name, spec, onMessage: (message) => this.#receive(message) })
    this.spec = spec
  }

  override async start(): Promise<void> {
    const message = await super.start()
    if (isAgentMessage(message) && message.type === 'ready') this.initial = message.holdings
  }

  /** Sends a call. Resolves when it has settled, its agent was killed, or it is far too late. */
  async call(record: CallRecord): Promise<void> {
    const { key, deadlineMs } = record.call
    this.#records.set(key, record)
    const { promise, resolve } = deferred()
    this.#waits.set(key, resolve)
    const timer = setTimeout(resolve, deadlineMs + GIVE_UP_MS)
    if (!this.send({ type: 'call', call: record.call })) {
      record.killed = true
      resolve()
    }
    await promise
    clearTimeout(timer)
    this.#waits.delete(key)
  }

  jumpClock(ms: number): void {
    this.send({ type: 'jump-clock', ms })
  }

  /** Lets the agent close its clients, and keeps what it holds after that in `final`. */
  async close(): Promise<void> {
    this.#closed = deferred()
    if (!this.send({ type: 'close' })) return
    const late = sleep(CLOSE_MS, undefined, { ref: false })
    this.final = await Promise.race([this.#closed.promise, late])
  }

  #receive(message: unknown): void {
    if (!isAgentMessage(message)) return
    if (message.type === 'closed') this.#closed.resolve(message.holdings)
    if (message.type !== 'settled') return
    const { settlement } = message
    this.#records.get(settlement.key)?.settlements.push(settlement)
    this.#waits.get(settlement.key)?.()
  }

  protected override onExit(): void {
    this.#closed.resolve(undefined)
    for (const [key, endWait] of this.#waits) {
      const record = this.#records.get(key)
      if (record) record.killed = true
      endWait()
    }
  }
}

function isAgentMessage(message: unknown): message is AgentMessage {
  return typeof message === 'object' && message !== null && 'type' in message
}
