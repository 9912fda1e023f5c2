import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { startRedisServer } from '@x/internal/testing'
import { CommandError, toLine } from '@x/internal/command-line'
import type { FromAgent, ToAgent } from '../agent/agent-messages.ts'
import { MEMORY_SERVER, SERVERS } from '../servers/servers.ts'
import type { ServerDefinition } from '../servers/servers.ts'
import type { Command, ExecutionType, ProcessName, Trouble } from '../timeline/commands.ts'
import { DEBUG_STATE } from '../timeline/events.ts'
import { Conversation } from './conversation.ts'
import { DebugState } from './debug-state.ts'
import { EventLog } from './event-log.ts'
import { ExchangeRecorder } from './exchange-recorder.ts'
import type { Caller } from './exchange-recorder.ts'
import { HostedServer, NOWHERE } from './hosted-server.ts'
import { ManagedProcess } from './managed-process.ts'

export interface PlaygroundOptions {
  /** Keeps the conversation, and the SQLite files. @default a temporary one */
  readonly folder?: string | undefined
  /** @default 'playground' */
  readonly executionType?: ExecutionType | undefined
  /** Variables of both processes beside those of this process: `PLAYGROUND_MODEL`, `REPORT_MS`. */
  readonly env?: Readonly<Record<string, string>> | undefined
}

const AGENT_ID = 'playground'
const PARALLEL_CALLS = 50

/**
 * Everything that the page and the terminal story show: the servers, the debug-state service, and the processes
 * of the agent and of the gateway. Nothing is simulated. The servers listen on loopback only.
 */
export class Playground extends EventLog implements AsyncDisposable {
  readonly #options: PlaygroundOptions
  readonly #gatewayToken = randomBytes(32).toString('hex')
  readonly #debugStateToken = randomBytes(32).toString('hex')
  readonly recorder: ExchangeRecorder
  readonly #servers = new Map<string, HostedServer>()
  readonly #conversation: Conversation
  readonly #agent: ManagedProcess<FromAgent>
  readonly #gateway: ManagedProcess<{ readonly type: 'ready'; readonly url: string }>
  /** The gateway as a server: its process has another URL after each start. */
  readonly #gatewayServer = {
    url: NOWHERE,
    kind: 'modern' as const,
    async [Symbol.asyncDispose]() {},
  }
  readonly #stack = new AsyncDisposableStack()
  #debugState: DebugState | undefined
  /** Environments of the callers, which have proxies of their own: the page shows who calls. */
  #env: Partial<Record<Caller['from'], Record<string, string>>> = {}
  #executionType: ExecutionType
  /** Ends when the trouble before it has ended. */
  #trouble: Promise<unknown> = Promise.resolve()

  private constructor(options: PlaygroundOptions) {
    super()
    this.#options = options
    this.#executionType = options.executionType ?? 'playground'
    this.recorder = new ExchangeRecorder(
      [this.#gatewayToken, this.#debugStateToken],
      (exchange) => {
        this.append({ type: 'exchange', exchange })
        const isWrite = exchange.httpMethod !== 'GET' && exchange.durationMs !== undefined
        if (exchange.to === DEBUG_STATE && isWrite) {
          this.#emitRecords().catch(() => {}) // the store is closed at the end
        }
      },
    )
    this.#conversation = new Conversation(this, (message) => this.#agent.send(message))
    this.#agent = new ManagedProcess({
      name: 'agent',
      file: new URL('../agent/agent-process.ts', import.meta.url),
      log: this,
      onMessage: (message) => {
        if (message.type !== 'ready') this.#conversation.add(message)
      },
      onCrash: () =>
        this.#conversation.lose('The agent process ended in the middle of the run: say it again.'),
    })
    this.#gateway = new ManagedProcess({
      name: 'gateway',
      file: new URL('../servers/gateway-process.ts', import.meta.url),
      log: this,
      onMessage: ({ url }) => (this.#gatewayServer.url = url),
    })
  }

  /**
   * Starts everything. A server or process that does not start is a part of the state, and the rest goes on.
   *
   * @throws CommandError if the folder cannot be used
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

  /** Environment in which other programs, such as LangGraph Studio, use the same servers. */
  get environment(): Readonly<Record<string, string>> {
    return { ...this.#env['other client'], AGENT_EXECUTION_TYPE: this.#executionType }
  }

  /**
   * Does what a person asks. Resolves when it is done; a run is done when it has ended, or waits for an answer.
   *
   * @throws CommandError with a message for the person
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
        // Calls and tasks go on while other trouble is made.
        if (trouble.name === 'long-task') return this.#longTask(trouble.kill)
        if (trouble.name === 'parallel-calls') return this.#callInParallel()
        return this.#afterOthers(() => this.#makeTrouble(trouble))
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#exitAgent(), this.#gateway.kill()])
    await this.#stack.disposeAsync()
  }

  async #start(): Promise<void> {
    const folder = await this.#openFolder()
    const file = join(folder, 'debugstate.db')
    const debugState = new DebugState(file, AGENT_ID, this.#debugStateToken)
    this.#debugState = this.#stack.use(debugState)
    await this.#emitRecords() // a file that cannot be used shows here
    this.#conversation.open(join(folder, 'conversation.json'))
    const redis = await startRedisServer().catch(() => undefined)
    if (redis !== undefined) this.#stack.use(redis)
    else this.notify('info', 'There is no redis-server: a task ends when its gateway is killed.')

    const gateway: ServerDefinition = {
      name: 'gateway',
      title: 'Gateway: agents as an MCP server',
      troubles: ['cut-connections'],
      start: async () => this.#gatewayServer,
    }
    for (const definition of [debugState.definition, ...SERVERS, gateway]) {
      const hosted = new HostedServer(definition, this, this.recorder)
      this.#servers.set(definition.name, this.#stack.use(hosted))
    }
    await Promise.allSettled([...this.#servers.values()].map((hosted) => hosted.start()))
    const title = 'Memory: a knowledge graph, from npm. The agent starts it.'
    const server = { name: 'memory', title, transport: 'stdio', state: 'running' } as const
    this.append({ type: 'server', server: { ...server, troubles: [] } })

    const env = {
      DATA_FOLDER: folder,
      REDIS_URL: redis?.url ?? '',
      MEMORY_SERVER,
      GATEWAY_TOKEN: this.#gatewayToken,
      DEBUGSTATE_AGENT_ID: AGENT_ID,
      DEBUGSTATE_TOKEN: this.#debugStateToken,
    }
    const callers: Caller[] = [
      { from: 'agent', pid: () => this.#agent.pid },
      { from: 'gateway', pid: () => this.#gateway.pid },
      { from: 'other client', pid: () => 0 },
    ]
    for (const caller of callers)
      this.#env[caller.from] = { ...env, ...(await this.#urlsFor(caller)) }
    await Promise.all([this.#startAgent(), this.#startGateway()])
  }

  /** Returns the folder of all files. */
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
      const message = `The folder ${path} cannot be made: ${toLine(cause)}. Choose another with --db`
      throw new CommandError(message, { cause })
    }
    return path
  }

  /** Returns variables with the URLs of all servers for one caller, such as `BASKET_URL`. */
  async #urlsFor(caller: Caller): Promise<Record<string, string>> {
    const urls = [...this.#servers].map(async ([name, server]) => [
      `${name.replace('-', '').toUpperCase()}_URL`,
      await server.openProxy(caller),
    ])
    return Object.fromEntries(await Promise.all(urls))
  }

  async #startGateway(): Promise<void> {
    await this.#gateway.start({ ...this.#env.gateway, ...this.#options.env }, 'runtime')
  }

  async #startAgent(): Promise<void> {
    const env = { ...this.#env.agent, ...this.#options.env }
    await this.#conversation.continueAfter(() => this.#agent.start(env, this.#executionType))
  }

  async #exitAgent(): Promise<void> {
    await this.#agent.exit({ type: 'exit' } satisfies ToAgent)
  }

  /** Runs one trouble after the other: two pages may ask at once. */
  #afterOthers(run: () => Promise<void>): Promise<void> {
    const done = this.#trouble.then(run)
    this.#trouble = done.catch(() => undefined)
    return done
  }

  async #makeTrouble(
    trouble: Exclude<Trouble, { name: 'long-task' | 'parallel-calls' }>,
  ): Promise<void> {
    if ('server' in trouble) {
      const server = this.#servers.get(trouble.server)
      if (server === undefined) throw new CommandError(`No server is called "${trouble.server}".`)
      return server.makeTrouble(trouble.name)
    }
    return trouble.name === 'kill-process'
      ? this.#killProcess(trouble.process)
      : this.#setExecutionType(trouble.executionType)
  }

  async #killProcess(name: ProcessName): Promise<void> {
    const program = name === 'agent' ? this.#agent : this.#gateway
    const { pid } = program
    await program.kill()
    if (pid !== 0) this.notify('info', `The ${name} process ${pid} was killed (SIGKILL).`)
    return name === 'agent' ? this.#startAgent() : this.#startGateway()
  }

  async #callInParallel(): Promise<void> {
    if (this.state.processes['agent']?.state !== 'running') {
      throw new CommandError(
        'The agent process does not run: wait until it has started, or kill it.',
      )
    }
    const last = this.state.notices.at(-1)?.id ?? 0
    this.#agent.send({ type: 'parallel-calls', count: PARALLEL_CALLS } satisfies ToAgent)
    // The agent reports the outcome as a notice.
    await this.until(
      ({ processes, notices }) =>
        processes['agent']?.state !== 'running' || notices.some(({ id }) => id > last),
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
      const isPolled = this.until(({ run, exchanges }) => {
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
    const records = (await this.#debugState?.records()) ?? []
    if (isDeepStrictEqual(records, this.state.records)) return
    this.append({ type: 'records', records })
  }
}
