// Child processes of a run: services, and agents that make calls.
import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { sourceNode } from '@x/internal/testing'
import { deferred } from '@x/mcp-testing'
import type { AgentMessage, AgentSpec, Call, DriverMessage, Holdings } from './agent.ts'
import type { CallRecord, RunRecord } from './run-record.ts'
import type { Turn } from './task-process.ts'

/** Time that a call may take beyond its deadline before the driver stops waiting for it. */
const GIVE_UP_MS = 10_000
/** Time that an agent may take to close its clients, also on a busy machine. */
const CLOSE_MS = 30_000
/** Time that a process may take to end after its channel was closed, also on a busy machine. */
const EXIT_MS = 120_000

/** Makes a folder that is removed with the stack, also if a signal ends the command. */
export function temporaryFolder(stack: AsyncDisposableStack): string {
  const folder = mkdtempSync(join(tmpdir(), 'chaos-'))
  const remove = (): void => rmSync(folder, { recursive: true, force: true })
  process.once('exit', remove)
  stack.defer(remove)
  return folder
}

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

interface Program {
  /** Name in reports, such as `replica-1`. */
  readonly name: string
  readonly entry: URL
  /** The only argument of the program. */
  readonly spec: object
  /** Gets a line when the process ends although it was not told to. */
  readonly crashes: string[]
  /** Called with each message but the first. */
  onMessage(message: unknown): void
}

/** A program that can be killed and started again. Its first message says that it is ready. */
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

  /** `undefined` when the process does not run. */
  get pid(): number | undefined {
    return this.#process?.pid
  }

  /** Resolves when the process is ready. */
  async start(): Promise<void> {
    const { entry, spec, crashes } = this.#program
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
    await once(child, 'message', { signal: gone.signal })
    child.on('message', (message) => this.#program.onMessage(message))
    this.#process = child
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
  protected send(message: DriverMessage | Turn): boolean {
    if (!this.#process?.connected) return false
    this.#process.send(message, () => {})
    return true
  }

  protected onExit(): void {}
}

/** An agent. Its name stays the same when its process is started again. */
export class Agent extends Child {
  readonly spec: AgentSpec
  /** Memory and resources that the process holds after it has closed its clients. */
  holdings: Holdings | undefined
  readonly #run: RunRecord
  /** Ends the wait for each call that has not settled. */
  readonly #waits = new Map<CallRecord, () => void>()
  #closed = deferred<Holdings | undefined>()

  constructor(spec: AgentSpec, entry: URL, run: RunRecord) {
    const onMessage = (message: AgentMessage): void => this.#receive(message)
    super({ name: spec.name, entry, spec, crashes: run.crashes, onMessage })
    this.spec = spec
    this.#run = run
  }

  /** Makes a call. Resolves when it has settled, the agent was killed, or the call is far too late. */
  async call(call: Call): Promise<CallRecord> {
    const record: CallRecord = {
      call,
      agent: this.name,
      kind: this.spec.kind,
      startedAt: this.#run.now(),
      settlements: [],
      killed: false,
      mustSucceed: false,
    }
    this.#run.calls.set(call.key, record)
    record.killed = !this.send({ type: 'call', call })
    if (record.killed) return record
    const { promise, resolve } = deferred()
    this.#waits.set(record, resolve)
    const timer = setTimeout(resolve, call.deadlineMs + GIVE_UP_MS)
    await promise
    clearTimeout(timer)
    this.#waits.delete(record)
    return record
  }

  jumpClock(ms: number): void {
    this.send({ type: 'jump-clock', ms })
  }

  /** Lets the agent close its clients, and keeps what it holds after that in `holdings`. */
  async close(): Promise<void> {
    this.#closed = deferred()
    if (!this.send({ type: 'close' })) return
    const late = sleep(CLOSE_MS, undefined, { ref: false })
    this.holdings = await Promise.race([this.#closed.promise, late])
  }

  #receive(message: AgentMessage): void {
    if (message.type === 'closed') this.#closed.resolve(message.holdings)
    if (message.type !== 'settled') return
    const record = this.#run.calls.get(message.settlement.key)
    if (!record) return
    record.settlements.push(message.settlement)
    this.#waits.get(record)?.()
  }

  protected override onExit(): void {
    this.#closed.resolve(undefined)
    for (const [record, endWait] of this.#waits) {
      record.killed = record.settlements.length === 0
      endWait()
    }
  }
}
