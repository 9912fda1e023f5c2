import { randomBytes, randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createDebugStateServer, SqliteDebugStateStore } from '@x/agents-debugstate/server'
import { deferred, startRedisServer } from '@x/internal/testing'
import type { RecordingProxy } from '@x/mcp-testing'
import type { ElicitationAnswer } from '@x/langchain-mcp'
import type { FromAgent, RunReference, ToAgent } from '../agent/agent-messages.ts'
import { modelName } from '../agent/models.ts'
import { memoryServer } from '../servers/npm-servers.ts'
import { DEBUG_STATE } from '../timeline/classify.ts'
import type {
  Command,
  ExchangeDetails,
  ExecutionType,
  Happening,
  ProcessState,
  Question,
  ServerState,
  TimelineEvent,
  Trouble,
} from '../timeline/events.ts'
import type { ConversationItem, PlaygroundState } from '../timeline/state.ts'
import { lineFrom, UserError } from '../user-error.ts'
import { ChildProgram } from './child-program.ts'
import { EventLog } from './event-log.ts'
import { ExchangeRecorder } from './exchange-recorder.ts'
import { HOSTED_SERVERS } from './hosted-servers.ts'
import type { HostedServer, RunningServer } from './hosted-servers.ts'
import { readSessionRecords } from './session-records.ts'

export interface PlaygroundOptions {
  /** Folder of the SQLite files. @default a temporary one */
  readonly folder?: string | undefined
  /** @default 'playground' */
  readonly executionType?: ExecutionType | undefined
  /** Variables of the agent process, such as `PLAYGROUND_MODEL`. @default those of this process */
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
/** Nothing listens here: calls of a server that did not start are refused. */
const NOWHERE = 'http://127.0.0.1:1/mcp'

/** A server, its proxy, and what a person can do to it. */
interface Lane {
  readonly state: ServerState
  readonly proxy: RecordingProxy
  readonly definition?: HostedServer
  readonly server?: RunningServer | undefined
}

type OpenQuestion = Extract<ConversationItem, { type: 'question' }>

/**
 * Everything that the page and the terminal story show: the servers, the debug-state service, and the processes
 * of the agent and of the gateway. All of it is real, and listens on loopback only.
 */
export class Playground implements AsyncDisposable {
  readonly #options: PlaygroundOptions
  readonly #log = new EventLog()
  readonly #stack = new AsyncDisposableStack()
  readonly #lanes = new Map<string, Lane>()
  readonly #gatewayToken = randomBytes(32).toString('hex')
  readonly #debugStateToken = randomBytes(16).toString('hex')
  readonly #recorder = new ExchangeRecorder(
    [this.#gatewayToken, this.#debugStateToken],
    (exchange) => {
      this.#log.append({ type: 'exchange', exchange })
      const isWrite = exchange.httpMethod !== 'GET' && exchange.durationMs !== undefined
      if (exchange.to === DEBUG_STATE && isWrite) void this.#emitRecords()
    },
  )
  readonly #processes: { agent?: ChildProgram<never>; gateway?: ChildProgram<never> } = {}
  #store: SqliteDebugStateStore | undefined
  /** Environment of both processes. */
  #env: Record<string, string> = {}
  #gatewayUrl = NOWHERE
  #executionType: ExecutionType
  #threadId: string = randomUUID()
  /** Answers to questions of the run that waits, until all of them are there. */
  #answers: Record<string, ElicitationAnswer> = {}
  /** Ends when the trouble before it has ended. */
  #trouble: Promise<unknown> = Promise.resolve()

  private constructor(options: PlaygroundOptions) {
    this.#options = options
    this.#executionType = options.executionType ?? 'playground'
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

  /** Returns the events after one, or undefined if some of them are not kept any more. */
  eventsAfter(id: number): readonly TimelineEvent[] | undefined {
    return this.#log.after(id)
  }

  /** Returns headers and bodies of an exchange without secrets, or undefined if they are not kept any more. */
  exchangeDetails(id: number): ExchangeDetails | undefined {
    return this.#recorder.detailsOf(id)
  }

  /** Environment in which another process, such as the one of LangGraph Studio, uses the same servers. */
  get environment(): Readonly<Record<string, string>> {
    return { ...this.#env, AGENT_EXECUTION_TYPE: this.#executionType }
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
        return this.#say(command.text)
      case 'answer':
        return this.#answer(command)
      case 'stop-run':
        return this.#stopRun()
      case 'new-conversation':
        this.#refuseWhileRunning()
        this.#threadId = randomUUID()
        this.#log.append({ type: 'conversation-cleared' })
        return undefined
      case 'trouble':
        return this.#makeTrouble(command.trouble)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#processes.agent?.exit({ type: 'exit' } satisfies ToAgent)
    await this.#processes.gateway?.kill()
    await this.#stack.disposeAsync()
  }

  // Start

  async #start(): Promise<void> {
    const folder = await this.#openFolder()
    const store = this.#stack.use(new SqliteDebugStateStore(join(folder, 'debugstate.db')))
    this.#store = store
    const tokens = [{ token: this.#debugStateToken, agentIds: [AGENT_ID] }]
    const debugState = this.#stack.use(createDebugStateServer({ store, tokens }))
    await this.#emitRecords() // a file that cannot be used shows here
    const debugStateUrl = await debugState.listen()
    const redis = await startRedisServer().catch(() => undefined)
    if (redis !== undefined) this.#stack.use(redis)
    else this.notify('info', 'There is no redis-server: a task ends when its gateway is killed.')

    const debugStateProxy = await this.#openLane(
      {
        name: DEBUG_STATE,
        title: 'Debug state: keeps sessions, on SQLite',
        troubles: ['cut-connections'],
      },
      () => debugStateUrl,
    )
    const hosted = this.#options.servers ?? HOSTED_SERVERS
    const proxies = await Promise.all(hosted.map((definition) => this.#startServer(definition)))
    const gatewayProxy = await this.#openLane(
      {
        name: 'gateway',
        title: 'Gateway: agents as an MCP server',
        troubles: ['restart-server', 'cut-connections'],
        revision: '2026-07-28',
      },
      () => this.#gatewayUrl,
    )
    this.#emitServer({
      name: 'memory',
      title: 'Memory: a knowledge graph, from npm, started by the agent',
      transport: 'stdio',
      state: 'running',
      troubles: [],
    })
    const memory = memoryServer(folder)
    this.#env = {
      DATA_FOLDER: folder,
      REDIS_URL: redis?.url ?? '',
      ...(this.#options.reportMs !== undefined && { REPORT_MS: String(this.#options.reportMs) }),
      ...Object.fromEntries(
        hosted.map(({ name }, index) => [
          `${name.toUpperCase()}_URL`,
          proxies[index]?.url ?? NOWHERE,
        ]),
      ),
      MEMORY_SERVER: memory.args?.[0] ?? '',
      MEMORY_FILE: memory.env?.['MEMORY_FILE_PATH'] ?? '',
      GATEWAY_URL: gatewayProxy.url,
      GATEWAY_TOKEN: this.#gatewayToken,
      DEBUGSTATE_URL: new URL(debugStateProxy.url).origin,
      DEBUGSTATE_AGENT_ID: AGENT_ID,
      DEBUGSTATE_TOKEN: this.#debugStateToken,
    }
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
      throw new UserError(`The folder ${path} cannot be made: ${lineFrom(cause)}`, { cause })
    }
    return path
  }

  async #openLane(
    server: Pick<ServerState, 'name' | 'title' | 'troubles' | 'revision'>,
    target: () => string,
  ): Promise<RecordingProxy> {
    const proxy = await this.#startProxy(server.name, target)
    const state: ServerState = { ...server, transport: 'http', state: 'running' }
    this.#lanes.set(server.name, { state, proxy })
    this.#emitServer(state)
    return proxy
  }

  async #startProxy(to: string, target: () => string): Promise<RecordingProxy> {
    const pid = (): number => this.#processes.agent?.pid ?? 0
    return this.#stack.use(await this.#recorder.startProxy(target, { from: 'agent', to, pid }))
  }

  async #startServer(definition: HostedServer): Promise<RecordingProxy> {
    const { name, title, troubles } = definition
    const starting: ServerState = { name, title, troubles, transport: 'http', state: 'starting' }
    this.#emitServer(starting)
    const url = (): string => this.#lanes.get(name)?.server?.url ?? NOWHERE
    const proxy = await this.#startProxy(name, url)
    this.#stack.defer(async () => this.#lanes.get(name)?.server?.[Symbol.asyncDispose]())
    this.#lanes.set(name, { definition, state: starting, proxy })
    await this.#startHosted(name).catch((error: unknown) => this.notify('problem', lineFrom(error)))
    return proxy
  }

  async #startHosted(name: string): Promise<void> {
    const lane = this.#lanes.get(name)
    if (lane?.definition === undefined) return
    try {
      const server = await lane.definition.start()
      const state: ServerState = {
        ...lane.state,
        state: 'running',
        problem: undefined,
        revision: server.revision(),
      }
      this.#lanes.set(name, { ...lane, server, state })
      this.#emitServer(state)
    } catch (cause) {
      const line = lineFrom(cause).slice(0, 300)
      const problem = `It did not start: ${line}. Restart it to try again.`
      const state: ServerState = { ...lane.state, state: 'failed', problem }
      this.#lanes.set(name, { ...lane, state })
      this.#emitServer(state)
      throw new UserError(`The server ${name} did not start: ${line}`, { cause })
    }
  }

  // Processes

  async #startAgent(): Promise<void> {
    const env = { ...this.#env, ...this.#options.env, AGENT_EXECUTION_TYPE: this.#executionType }
    const started = deferred<string | undefined>()
    const agent = new ChildProgram<FromAgent>({
      file: AGENT_FILE,
      env,
      onMessage: (message) => {
        if (message.type === 'happening') this.#onHappening(message.happening)
        else started.resolve(message.type === 'failed' ? message.problem : undefined)
      },
      onCrash: (reason) => {
        started.resolve(reason)
        this.#onCrash('agent', agent, reason)
      },
    })
    const model = modelName({ ...process.env, ...env })
    await this.#follow(agent, started.promise, {
      name: 'agent',
      model,
      executionType: this.#executionType,
    })
  }

  async #startGateway(): Promise<void> {
    const started = deferred<string | undefined>()
    const gateway = new ChildProgram<string>({
      file: GATEWAY_FILE,
      env: this.#env,
      onMessage: (url) => {
        this.#gatewayUrl = url
        started.resolve(undefined)
      },
      onCrash: (reason) => {
        started.resolve(reason)
        this.#onCrash('gateway', gateway, reason)
      },
    })
    const process = { name: 'gateway', model: 'none', executionType: 'runtime' } as const
    await this.#follow(gateway, started.promise, process)
  }

  /** Waits until a process has started. `started` resolves to the reason if it cannot. A failure is part of its state. */
  async #follow(
    program: ChildProgram<never>,
    started: Promise<string | undefined>,
    process: Omit<ProcessState, 'state'>,
  ): Promise<void> {
    this.#processes[process.name] = program
    this.#emitProcess({ ...process, state: 'starting' })
    const late = `It did not start in ${START_MS / 1000} s.`
    const problem = await Promise.race([started, sleep(START_MS, late, { ref: false })])
    if (problem === undefined) {
      this.#emitProcess({ ...process, state: 'running', pid: program.pid })
    } else {
      await program.kill()
      this.#emitProcess({ ...process, state: 'failed', problem })
    }
  }

  #onCrash(name: ProcessState['name'], program: ChildProgram<never>, reason: string): void {
    const process = this.state.processes[name]
    if (process === undefined || this.#processes[name] !== program) return
    const problem = `${reason} Start it again with "Kill".`
    this.#emitProcess({ ...process, pid: undefined, state: 'failed', problem })
    if (name === 'agent') this.#loseRun()
  }

  #emitProcess(process: ProcessState): void {
    this.#log.append({ type: 'process', process })
  }

  /** The run of an agent process that has ended by itself is over. */
  #loseRun(): void {
    const { run } = this.state
    if (run?.state !== 'running' && run?.state !== 'waiting') return
    const problem = 'The agent process ended in the middle of the run: say it again.'
    this.#log.append({ type: 'run', run: { id: run.id, state: 'lost', problem } })
    this.#closeQuestions()
  }

  async #killProcess(name: 'agent' | 'gateway'): Promise<void> {
    const before = this.state.processes[name]
    await this.#processes[name]?.kill()
    if (before !== undefined) {
      this.#emitProcess({ ...before, pid: undefined, state: 'killed' })
    }
    if (name === 'gateway') {
      await this.#startGateway()
      return
    }
    await this.#startAgent()
    const { run } = this.state
    if (run?.state === 'running' || run?.state === 'waiting') {
      this.#sendToAgent({ type: 'continue', ...this.#runReference(run.id) })
    }
  }

  #sendToAgent(message: ToAgent): void {
    this.#processes.agent?.send(message)
  }

  // Conversation

  async #say(text: string): Promise<void> {
    if (text.trim() === '') throw new UserError('Say something first.')
    this.#refuseWhileRunning()
    const agent = this.state.processes['agent']
    if (agent?.state !== 'running') {
      throw new UserError(`The agent process does not run: ${agent?.problem ?? 'it starts'}`)
    }
    const runId = randomUUID()
    this.#answers = {}
    this.#log.append({ type: 'message', message: { id: runId, from: 'user', text } })
    this.#log.append({ type: 'run', run: { id: runId, state: 'running' } })
    this.#sendToAgent({ type: 'say', text, ...this.#runReference(runId) })
    await this.#untilIdle(runId)
  }

  #runReference(runId: string): RunReference {
    return { runId, threadId: this.#threadId }
  }

  #refuseWhileRunning(): void {
    const { run } = this.state
    if (run?.state === 'running') {
      throw new UserError('The agent is still working: wait for it, or stop the run.')
    }
    if (run?.state === 'waiting') {
      throw new UserError('A server waits for an answer: answer its question, or stop the run.')
    }
  }

  async #answer({
    questionId,
    action,
    content,
  }: Extract<Command, { type: 'answer' }>): Promise<void> {
    const question = this.#openQuestions().find(({ id }) => id === questionId)
    const { run } = this.state
    if (question === undefined || run === undefined) {
      throw new UserError('This question is closed: it was answered, or its run has ended.')
    }
    this.#answers[baseIdOf(questionId)] = { action, ...(content && { content }) }
    this.#log.append({ type: 'question-closed', questionId, action })
    if (this.#openQuestions().length > 0) return
    this.#log.append({ type: 'run', run: { id: run.id, state: 'running' } })
    this.#sendToAgent({ type: 'answer', answers: this.#answers, ...this.#runReference(run.id) })
    this.#answers = {}
    await this.#untilIdle(run.id)
  }

  #openQuestions(): OpenQuestion[] {
    return this.state.conversation.flatMap((item) =>
      item.type === 'question' && item.action === undefined ? [item] : [],
    )
  }

  #closeQuestions(): void {
    for (const { id } of this.#openQuestions()) {
      this.#log.append({ type: 'question-closed', questionId: id, action: 'cancel' })
    }
  }

  async #stopRun(): Promise<void> {
    const { run } = this.state
    if (run?.state !== 'running' && run?.state !== 'waiting') {
      throw new UserError('Nothing runs that could be stopped.')
    }
    this.#sendToAgent({ type: 'stop-run' })
    if (run.state === 'running') return this.#untilIdle(run.id)
    this.#closeQuestions()
    const problem = 'You stopped this run.'
    this.#log.append({ type: 'run', run: { id: run.id, state: 'done', problem } })
    return undefined
  }

  #onHappening(happening: Happening): void {
    if (happening.type !== 'question') {
      this.#log.append(happening)
      return
    }
    const asked = this.state.conversation.filter(
      (item): item is OpenQuestion =>
        item.type === 'question' && baseIdOf(item.id) === happening.question.id,
    )
    if (asked.some(({ action }) => action === undefined)) return // another process asks it again
    const question: Question =
      asked.length === 0
        ? happening.question
        : { ...happening.question, id: `${happening.question.id}#${asked.length + 1}` }
    this.#log.append({ type: 'question', question })
  }

  /** Resolves when a run has ended, or waits for an answer. */
  #untilIdle(runId: string): Promise<void> {
    return this.#until(({ run }) => run?.id !== runId || run.state !== 'running')
  }

  #until(isTrue: (state: PlaygroundState) => boolean): Promise<void> {
    if (isTrue(this.state)) return Promise.resolve()
    return new Promise((resolvePromise) => {
      const off = this.on(() => {
        if (!isTrue(this.state)) return
        off()
        resolvePromise()
      })
    })
  }

  // Trouble

  async #makeTrouble(trouble: Trouble): Promise<void> {
    if (trouble.name === 'long-task') return this.#longTask(trouble.kill)
    const done = this.#trouble.then(() => this.#doTrouble(trouble))
    this.#trouble = done.catch(() => undefined)
    return done
  }

  async #doTrouble(trouble: Exclude<Trouble, { name: 'long-task' }>): Promise<void> {
    switch (trouble.name) {
      case 'kill-process':
        return this.#killProcess(trouble.process)
      case 'set-execution-type':
        return this.#setExecutionType(trouble.executionType)
      case 'parallel-calls': {
        const { lastEventId } = this.state
        this.#sendToAgent({ type: 'parallel-calls', count: PARALLEL_CALLS })
        return this.#until(({ notices }) => notices.some(({ id }) => id > lastEventId))
      }
      case 'forget-sessions':
      case 'restart-server':
      case 'cut-connections':
      case 'switch-era':
        return this.#troubleServer(trouble)
    }
  }

  async #setExecutionType(executionType: ExecutionType): Promise<void> {
    this.#refuseWhileRunning()
    await this.#processes.agent?.exit({ type: 'exit' } satisfies ToAgent)
    this.#executionType = executionType
    await this.#startAgent()
    const keeps = executionType === 'playground'
    this.notify(
      'info',
      keeps
        ? 'Sessions are stored in debug state and stay open, for the next run and the next process.'
        : 'Sessions are kept in memory, and end with each run: the next run makes its own handshakes.',
    )
  }

  async #troubleServer(trouble: Extract<Trouble, { server: string }>): Promise<void> {
    const lane = this.#lanes.get(trouble.server)
    if (lane === undefined)
      throw new UserError(`There is no server ${trouble.server.slice(0, 60)}.`)
    const { proxy, server, state } = lane
    if (!state.troubles.includes(trouble.name)) {
      throw new UserError(`The server ${state.name} cannot do "${trouble.name}".`)
    }
    switch (trouble.name) {
      case 'cut-connections':
        proxy.dropConnections()
        return undefined
      case 'restart-server':
        return this.#restartServer(lane)
      case 'forget-sessions':
      case 'switch-era': {
        if (server === undefined) throw new UserError(`The server ${state.name} does not run.`)
        if (trouble.name === 'forget-sessions') server.forgetSessions?.()
        else server.switchEra?.()
        const next = { ...state, revision: server.revision() }
        this.#lanes.set(state.name, { ...lane, state: next })
        this.#emitServer(next)
        return undefined
      }
    }
  }

  async #restartServer({ state, server }: Lane): Promise<void> {
    if (state.name === 'gateway') return this.#killProcess('gateway')
    if (server?.restart === undefined) return this.#startHosted(state.name)
    this.#emitServer({ ...state, state: 'starting' })
    try {
      await server.restart()
      this.#emitServer({ ...state, state: 'running', problem: undefined })
    } catch (cause) {
      const problem = `It did not start again: ${lineFrom(cause).slice(0, 300)}`
      this.#emitServer({ ...state, state: 'failed', problem })
      throw new UserError(`The server ${state.name} did not start again.`, { cause })
    }
    return undefined
  }

  /** Has a report written, and kills a process while the task runs. */
  async #longTask(kill: 'agent' | 'gateway' | 'none'): Promise<void> {
    const before = Date.now()
    const done = this.#say('Write a report about tides')
    const isPolled = ({ run, exchanges }: PlaygroundState): boolean =>
      run?.state !== 'running' ||
      exchanges.some(
        ({ to, rpcMethod, status, startedAt }) =>
          to === 'gateway' && rpcMethod === 'tasks/get' && status === 200 && startedAt >= before,
      )
    if (kill !== 'none') {
      await Promise.race([done, this.#until(isPolled)])
      if (this.state.run?.state === 'running') {
        await this.#makeTrouble({ name: 'kill-process', process: kill })
      }
    }
    await done
  }

  #emitServer(server: ServerState): void {
    this.#log.append({ type: 'server', server })
  }

  async #emitRecords(): Promise<void> {
    if (this.#store === undefined) return
    const records = await readSessionRecords(this.#store, AGENT_ID)
    this.#log.append({ type: 'records', records })
  }
}

/** The id of a question without the number that it gets when it is asked again. */
function baseIdOf(questionId: string): string {
  return questionId.replace(/#\d+$/, '')
}
