import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { deferred, sourceNode } from '@x/internal/testing'
import { modelName } from '../agent/models.ts'
import type { ExecutionType, ProcessName } from '../timeline/commands.ts'
import type { ProcessState } from '../timeline/events.ts'
import type { EventLog } from './event-log.ts'

/** Time that a process has to start. */
const START_MS = 120_000
/** Time that a process has to exit. */
const EXIT_MS = 3000

export interface ManagedProcessOptions<Message> {
  readonly name: ProcessName
  readonly file: URL
  readonly log: EventLog
  readonly onMessage: (message: Message) => void
  /** Called when a process that had started ends without `kill()` or `exit()`. */
  readonly onCrash?: () => void
}

/**
 * A program in a process of its own, which ends with this process. Its first message is `ready`, and its state is
 * in the log.
 */
export class ManagedProcess<Message extends { readonly type: string }> {
  readonly #options: ManagedProcessOptions<Message>
  #child: ChildProcess | undefined
  #state: ProcessState

  constructor(options: ManagedProcessOptions<Message>) {
    this.#options = options
    this.#state = { name: options.name, state: 'killed', executionType: 'runtime', model: '' }
  }

  get pid(): number {
    return this.#child?.pid ?? 0
  }

  /** Starts a new process. Resolves when it has started; a failure is a part of its state. */
  async start(
    given: Readonly<Record<string, string>>,
    executionType: ExecutionType,
  ): Promise<void> {
    const { file, onMessage } = this.#options
    const env = { ...process.env, ...given, AGENT_EXECUTION_TYPE: executionType }
    this.#emit({ state: 'starting', executionType, model: modelName(env) })
    const child = fork(fileURLToPath(file), {
      execPath: sourceNode,
      execArgv: ['--conditions=mcp-source'],
      env,
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    this.#child = child
    const started = deferred<undefined>()
    const ended = reasonOfEnd(child)
    child.on('message', (message: Message) => {
      onMessage(message)
      if (message.type === 'ready') started.resolve(undefined)
    })
    const late = sleep(START_MS, `It did not start in ${START_MS / 1000} s.`, { ref: false })
    const problem = await Promise.race([started.promise, ended, late])
    if (problem !== undefined) {
      await this.#end(0)
      this.#emit({ state: 'failed', problem })
      return
    }
    this.#emit({ state: 'running', pid: child.pid })
    void this.#awaitCrash(child, ended)
  }

  async #awaitCrash(child: ChildProcess, ended: Promise<string>): Promise<void> {
    const reason = await ended
    if (child !== this.#child) return
    this.#child = undefined
    this.#emit({ state: 'failed', problem: `${reason} Kill it to start a new one.` })
    this.#options.onCrash?.()
  }

  send(message: object): void {
    if (this.#child?.connected) this.#child.send(message)
  }

  /** SIGKILL: the program can do nothing about it. Resolves when it has ended. */
  async kill(): Promise<void> {
    await this.#end(0)
    this.#emit({ state: 'killed' })
  }

  /** Asks the program by a message to exit, and kills it if that takes too long. */
  async exit(message: object): Promise<void> {
    this.send(message)
    await this.#end(EXIT_MS)
  }

  /** Kills the process, unless it exits within `ms`. */
  async #end(ms: number): Promise<void> {
    const child = this.#child
    this.#child = undefined
    if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    const timer = setTimeout(() => child.kill('SIGKILL'), ms)
    await exited
    clearTimeout(timer)
  }

  #emit(change: Partial<ProcessState> & Pick<ProcessState, 'state'>): void {
    this.#state = { ...this.#state, pid: undefined, problem: undefined, ...change }
    this.#options.log.append({ type: 'process', process: this.#state })
  }
}

/** Resolves when a process has ended, with one sentence that says how. */
function reasonOfEnd(child: ChildProcess): Promise<string> {
  let lastError = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    lastError = /^\w*Error: (.*)$/m.exec(text)?.[1] ?? lastError
  })
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(`The process did not start: ${error.message}`))
    child.once('exit', (code, signal) => {
      const how = signal === null ? `exit code ${code}` : `signal ${signal}`
      resolve(`The process ended with ${how}. ${lastError}`.trim())
    })
  })
}
