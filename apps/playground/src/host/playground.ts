import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { createDebugStateServer, SqliteDebugStateStore } from '@x/agents-debugstate/server'
import { deferred, startRedisServer } from '@x/internal/testing'
import type { FromAgent, ToAgent } from '../agent/agent-messages.ts'
import { modelName } from '../agent/models.ts'
import { memoryServer } from '../servers/npm-servers.ts'
import type { Command, ExecutionType, ProcessName, Trouble } from '../timeline/commands.ts'
import { DEBUG_STATE } from '../timeline/events.ts'
import type { ExchangeDetails, ProcessState, TimelineEvent } from '../timeline/events.ts'
import type { PlaygroundState } from '../timeline/state.ts'
import { lineFrom, UserError } from '../user-error.ts'
import { ChildProgram } from './child-program.ts'
import { Conversation } from './conversation.ts'
import { EventLog } from './event-log.ts'
import { ExchangeRecorder } from './exchange-recorder.ts'
import { HOSTED_SERVERS } from './hosted-servers.ts'
import type { HostedServer } from './hosted-servers.ts'
import { NOWHERE, ServerLanes } from './server-lanes.ts'
import { readSessionRecords } from './session-records.ts'

export interface PlaygroundOptions {
  /** Folder of the SQLite files. @default a temporary one */
  readonly folder?: string | undefined
  /** SQLite file of the debug-state service. @default one in the folder */
  readonly databaseFile?: string | undefined
  /** @default 'playground' */
  readonly executionType?: ExecutionType | undefined
  /** Variables of both processes beside those of this process, such as `PLAYGROUND_MODEL`. */
  readonly env?: Readonly<Record<string, string>> | undefined
  /** Time that a report takes. @default 10_000 */
  readonly reportMs?: number | undefined
  /** @default HOSTED_SERVERS */
  readonly servers?: readonly HostedServer[] | undefined
}

const AGENT_FILE = new URL('../agent/agent-process.ts', import.meta.url)
const GATEWAY_FILE = new URL('../servers/gateway-process.ts', import.meta.url)
const AGENT_ID = 'playground'
const PARALLEL_CALLS = 50
/** Time that a process has to start. */
const START_MS = 30_000

/**
 * Everything that the page and the terminal story show: the servers, the debug-state service, and the processes
 * of the agent and of the gateway. Nothing is simulated. The servers listen on loopback only.
 */
export class Playground implements AsyncDisposable {
  readonly #options: PlaygroundOptions
  readonly #gatewayToken = randomBytes(32).toString('hex')
  readonly #debugStateToken = randomBytes(32).toString('hex')
  readonly #log = new EventLog()
  readonly #recorder: ExchangeRecorder
  readonly #lanes: ServerLanes
  readonly #conversation: Conversation
  readonly #stack = new AsyncDisposableStack()
  #store: SqliteDebugStateStore | undefined
  #agent: ChildProgram<FromAgent> | undefined
  #gateway: ChildProgram<string> | undefined
  #gatewayUrl = NOWHERE
  /** Environment of the agent process. */
  #env: Record<string, string> = {}
  /** The same for the gateway process, which has proxies of its own: the page shows who calls. */
  #gatewayEnv: Record<string, string> = {}
  #executionType: ExecutionType
  /** Ends when the trouble before it has ended. */
  #trouble: Promise<unknown> = Promise.resolve()

  private constructor(options: PlaygroundOptions) {
    this.#options = options
    this.#executionType = options.executionType ?? 'playground'
    this.#recorder = new ExchangeRecorder(
      [this.#gatewayToken, this.#debugStateToken],
      (exchange) => {
        this.#log.append({ type: 'exchange', exchange })
        const isWrite = exchange.httpMethod !== 'GET' && exchange.durationMs !== undefined
        if (exchange.to === DEBUG_STATE && isWrite) {
          this.#emitRecords().catch(() => {}) // the store is closed at the end
        }
      },
    )
    this.#lanes = new ServerLanes(this.#log, this.#recorder, () => this.#agent?.pid ?? 0)
    this.#conversation = new Conversation(this.#log, (message) => this.#agent?.send(message))
  }

  /**
   * Starts everything. A server or process that does not start is a part of the state, and the rest goes on.
   *
   * @throws UserError if the folder cannot be used
   */
  static async start(options: PlaygroundOptions = {}): Promise<Playground> {
    const playground = new Playground(options)
    try {
      await playground.#start()
    } catch (error) {
      await playground[Symbol.asyncDispose]()
      throw error
    }
    return playground
  }

  get state(): PlaygroundState {
    return this.#log.state
  }

  /** Calls `listener` with each later event. Returns a function that removes it. */
  on(listener: (event: TimelineEvent) => void): () => void {
    return this.#log.on(listener)
  }

  /** Resolves when a condition is true. */
  until(isTrue: (state: PlaygroundState) => boolean): Promise<void> {
    return this.#log.until(isTrue)
  }

  /** Returns headers and bodies of an exchange without secrets, or undefined if they are not kept any more. */
  exchangeDetails(id: number): ExchangeDetails | undefined {
    return this.#recorder.detailsOf(id)
  }

  /** Environment in which another process, such as that of LangGraph Studio, uses the same servers. */
  get environment(): Readonly<Record<string, string>> {
    return { ...this.#env, AGENT_EXECUTION_TYPE: this.#executionType }
  }

  /** Where other programs call the agents as an MCP server. The URL changes when the gateway restarts. */
  get gateway(): { readonly url: string; readonly token: string } {
    return { url: this.#gatewayUrl, token: this.#gatewayToken }
  }

  /** With Redis, a task of the gateway outlives its process. */
  get hasRedis(): boolean {
    return this.#env['REDIS_URL'] !== ''
  }

  notify(level: 'info' | 'problem', text: string): void {
    this.#log.append({ type: 'notice', level, text })
  }

  /**
   * Does what a person asks. Resolves when it is done; a run is done when it has ended, or waits for an answer.
   *
   * @throws UserError with a message for the person
   */
  async run(command: Command): Promise<void> {
    switch (command.type) {
      case 'say':
        return this.#conversation.say(command.text)
      case 'answer':
        return this.#conversation.answer(command)
      case 'stop-run':
        return this.#conversation.stopRun()
      case 'new-conversation':
        return this.#conversation.startAnew()
      case 'trouble': {
        const { trouble } = command
        return trouble.name === 'long-task'
          ? this.#longTask(trouble.kill)
          : this.#afterOthers(() => this.#makeTrouble(trouble))
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#exitAgent(), this.#gateway?.kill()])
    await this.#lanes[Symbol.asyncDispose]()
    await this.#stack.disposeAsync()
  }

  async #start(): Promise<void> {
    const folder = await this.#openFolder()
    const debugStateUrl = await this.#startDebugState(folder)
    const redis = await startRedisServer().catch(() => undefined)
    if (redis !== undefined) this.#stack.use(redis)
    else this.notify('info', 'There is no redis-server: a task ends when its gateway is killed.')

    const hosted = this.#options.servers ?? HOSTED_SERVERS
    const urls = await Promise.all(
      hosted.map(async (server) => [
        `${server.name.toUpperCase()}_URL`,
        await this.#lanes.start(server),
      ]),
    )
    const gatewayUrl = await this.#lanes.add(
      {
        name: 'gateway',
        title: 'Gateway: agents as an MCP server',
        troubles: ['cut-connections'],
        revision: '2026-07-28',
      },
      () => this.#gatewayUrl,
    )
    const memory = memoryServer(folder)
    const title = 'Memory: a knowledge graph, from npm. The agent starts it.'
    const server = { name: 'memory', title, transport: 'stdio', state: 'running' } as const
    this.#log.append({ type: 'server', server: { ...server, troubles: [] } })
    this.#env = {
      DATA_FOLDER: folder,
      REDIS_URL: redis?.url ?? '',
      ...Object.fromEntries(urls),
      ...(this.#options.reportMs !== undefined && { REPORT_MS: String(this.#options.reportMs) }),
      MEMORY_SERVER: memory.args?.[0] ?? '',
      MEMORY_FILE: memory.env?.['MEMORY_FILE_PATH'] ?? '',
      GATEWAY_URL: gatewayUrl,
      GATEWAY_TOKEN: this.#gatewayToken,
      DEBUGSTATE_URL: new URL(debugStateUrl).origin,
      DEBUGSTATE_AGENT_ID: AGENT_ID,
      DEBUGSTATE_TOKEN: this.#debugStateToken,
    }
    const gateway = { from: 'gateway', pid: () => this.#gateway?.pid ?? 0 } as const
    const gatewayUrls = hosted.map(async ({ name }) => [
      `${name.toUpperCase()}_URL`,
      await this.#lanes.addCaller(name, gateway),
    ])
    this.#gatewayEnv = { ...this.#env, ...Object.fromEntries(await Promise.all(gatewayUrls)) }
    await Promise.all([this.#startGateway(), this.#startAgent()])
  }

  async #openFolder(): Promise<string> {
    const { folder } = this.#options
    if (folder === undefined) {
      const temporary = await mkdtemp(join(tmpdir(), 'mcp-playground-'))
      this.#stack.defer(() => rm(temporary, { recursive: true, force: true }))
      return temporary
    }
    const path = resolve(folder)
    try {
      await mkdir(path, { recursive: true, mode: 0o700 })
    } catch (cause) {
      const message = `The folder ${path} cannot be made: ${lineFrom(cause)}. Choose another with --db`
      throw new UserError(message, { cause })
    }
    return path
  }

  /** Returns the URL of its proxy. */
  async #startDebugState(folder: string): Promise<string> {
    const { databaseFile = join(folder, 'debugstate.db') } = this.#options
    const store = this.#stack.use(new SqliteDebugStateStore(databaseFile))
    this.#store = store
    await this.#emitRecords() // a file that cannot be used shows here
    const tokens = [{ token: this.#debugStateToken, agentIds: [AGENT_ID] }]
    const service = this.#stack.use(createDebugStateServer({ store, tokens }))
    const url = await service.listen()
    const title = 'Debug state: stores the sessions of the agent, on SQLite'
    return this.#lanes.add({ name: DEBUG_STATE, title, troubles: ['cut-connections'] }, () => url)
  }

  async #startAgent(): Promise<void> {
    const env = { ...this.#env, ...this.#options.env, AGENT_EXECUTION_TYPE: this.#executionType }
    const started = deferred<string | undefined>()
    const agent = new ChildProgram<FromAgent>({
      file: AGENT_FILE,
      env,
      onMessage: (message) => {
        if (message.type === 'ready') started.resolve(undefined)
        else this.#conversation.add(message)
      },
      onCrash: (reason) => {
        started.resolve(reason)
        if (agent !== this.#agent) return
        this.#emitCrash('agent', reason)
        this.#conversation.lose('The agent process ended in the middle of the run: say it again.')
      },
    })
    this.#agent = agent
    const model = modelName({ ...process.env, ...env })
    const executionType = this.#executionType
    await this.#follow(agent, started.promise, { name: 'agent', model, executionType })
  }

  async #exitAgent(): Promise<void> {
    await this.#agent?.exit({ type: 'exit' } satisfies ToAgent)
  }

  async #startGateway(): Promise<void> {
    const env = { ...this.#gatewayEnv, ...this.#options.env }
    const started = deferred<string | undefined>()
    const gateway = new ChildProgram<string>({
      file: GATEWAY_FILE,
      env,
      onMessage: (url) => {
        this.#gatewayUrl = url
        started.resolve(undefined)
      },
      onCrash: (reason) => {
        started.resolve(reason)
        if (gateway === this.#gateway) this.#emitCrash('gateway', reason)
      },
    })
    this.#gateway = gateway
    const model = modelName({ ...process.env, ...env })
    const state = { name: 'gateway', model, executionType: 'runtime' } as const
    await this.#follow(gateway, started.promise, state)
  }

  /** Waits until a process has started. `started` resolves to the reason if it cannot. A failure is part of its state. */
  async #follow(
    program: ChildProgram<never>,
    started: Promise<string | undefined>,
    state: Omit<ProcessState, 'state'>,
  ): Promise<void> {
    this.#emitProcess({ ...state, state: 'starting' })
    const late = `It did not start in ${START_MS / 1000} s.`
    const problem = await Promise.race([started, sleep(START_MS, late, { ref: false })])
    if (problem === undefined) {
      this.#emitProcess({ ...state, state: 'running', pid: program.pid })
    } else {
      await program.kill()
      this.#emitProcess({ ...state, state: 'failed', problem })
    }
  }

  #emitCrash(name: ProcessName, reason: string): void {
    const known = this.state.processes[name]
    if (known === undefined) return
    const problem = `${reason} Kill it to start a new one.`
    this.#emitProcess({ ...known, pid: undefined, state: 'failed', problem })
  }

  #emitProcess(process: ProcessState): void {
    this.#log.append({ type: 'process', process })
  }

  /** Runs one trouble after the other: two pages may ask at once. */
  #afterOthers(run: () => Promise<void>): Promise<void> {
    const done = this.#trouble.then(run)
    this.#trouble = done.catch(() => undefined)
    return done
  }

  async #makeTrouble(trouble: Exclude<Trouble, { name: 'long-task' }>): Promise<void> {
    switch (trouble.name) {
      case 'kill-process':
        return this.#killProcess(trouble.process)
      case 'set-execution-type':
        return this.#setExecutionType(trouble.executionType)
      case 'parallel-calls':
        return this.#callInParallel()
      case 'forget-sessions':
      case 'restart-server':
      case 'cut-connections':
      case 'switch-era':
        return this.#lanes.makeTrouble(trouble)
    }
  }

  /** A run that the agent process leaves is continued by the new one, from its last checkpoint. */
  async #killProcess(name: ProcessName): Promise<void> {
    const program = name === 'agent' ? this.#agent : this.#gateway
    const known = this.state.processes[name]
    await program?.kill()
    if (known?.pid) this.notify('info', `The ${name} process ${known.pid} was killed (SIGKILL).`)
    if (known) this.#emitProcess({ ...known, pid: undefined, state: 'killed', problem: undefined })
    if (name === 'gateway') return this.#startGateway()
    const { openRun } = this.#conversation
    if (openRun !== undefined) this.#conversation.pause(openRun)
    await this.#startAgent()
    if (openRun === undefined) return undefined
    if (!isAgentRunning(this.state)) {
      this.#conversation.lose('No new agent process could be started to continue the run.')
      return undefined
    }
    this.#conversation.continue(openRun)
    return openRun.state === 'waiting' ? this.#conversation.untilIdle() : undefined
  }

  async #callInParallel(): Promise<void> {
    if (!isAgentRunning(this.state)) {
      throw new UserError('The agent process does not run: kill it to start a new one.')
    }
    const last = this.state.notices.at(-1)?.id ?? 0
    this.#agent?.send({ type: 'parallel-calls', count: PARALLEL_CALLS } satisfies ToAgent)
    // The agent reports the outcome as a notice.
    await this.#log.until(
      (state) => !isAgentRunning(state) || state.notices.some(({ id }) => id > last),
    )
  }

  async #setExecutionType(executionType: ExecutionType): Promise<void> {
    this.#conversation.refuseWhileRunning()
    await this.#exitAgent()
    this.#executionType = executionType
    await this.#startAgent()
    this.notify(
      'info',
      executionType === 'playground'
        ? 'Playground: sessions are stored in debug state, and stay open for the next run and the next process.'
        : 'Runtime: sessions are kept in memory and end with their run. Each run makes its own handshakes.',
    )
  }

  /** Has a report written, and kills a process while the task runs. */
  async #longTask(kill: ProcessName | 'none'): Promise<void> {
    const startedAt = Date.now()
    const done = this.#conversation.say('Write a report about tides')
    if (kill !== 'none') {
      // The agent has stored the task before it asks for its state.
      const isPolled = this.#log.until(({ run, exchanges }) => {
        if (run?.state !== 'running') return true
        return exchanges.some(
          ({ rpcMethod, status, startedAt: at }) =>
            rpcMethod === 'tasks/get' && status === 200 && at >= startedAt,
        )
      })
      await Promise.race([done, isPolled])
      if (this.state.run?.state === 'running') {
        await this.#afterOthers(() => this.#killProcess(kill))
      }
    }
    await done
  }

  async #emitRecords(): Promise<void> {
    if (this.#store === undefined) return
    const records = await readSessionRecords(this.#store, AGENT_ID)
    if (isDeepStrictEqual(records, this.state.records)) return
    this.#log.append({ type: 'records', records })
  }
}

function isAgentRunning({ processes }: PlaygroundState): boolean {
  return processes['agent']?.state === 'running'
}
