import type { RecordingProxy } from '@x/mcp-testing'
import type { ServerTrouble } from '../timeline/commands.ts'
import type { ServerState } from '../timeline/events.ts'
import { lineFrom, UserError } from '../user-error.ts'
import type { EventLog } from './event-log.ts'
import type { ExchangeRecorder, RecordedRoute } from './exchange-recorder.ts'
import type { HostedServer, RunningServer } from './hosted-servers.ts'

/** Nothing listens here: requests to a server that does not run are refused. */
export const NOWHERE = 'http://127.0.0.1:1/mcp'

type Caller = Omit<RecordedRoute, 'to'>

interface Lane {
  readonly state: ServerState
  /** Only for servers that the host starts. */
  readonly definition?: HostedServer
  readonly server?: RunningServer
}

/** The HTTP servers, each behind a proxy that records what the agent sends. */
export class ServerLanes implements AsyncDisposable {
  readonly #log: EventLog
  readonly #recorder: ExchangeRecorder
  readonly #agentPid: () => number
  readonly #lanes = new Map<string, Lane>()
  /** By the names of the servers; one for each process that calls. */
  readonly #proxies = new Map<string, RecordingProxy[]>()

  constructor(log: EventLog, recorder: ExchangeRecorder, agentPid: () => number) {
    this.#log = log
    this.#recorder = recorder
    this.#agentPid = agentPid
  }

  /** Adds a server that runs, and returns the URL of its proxy. `target` is called for each request. */
  async add(
    server: Omit<ServerState, 'state' | 'transport'>,
    target: () => string,
  ): Promise<string> {
    const state: ServerState = { ...server, transport: 'http', state: 'running' }
    const proxy = await this.#startProxy(server.name, target)
    this.#set({ state })
    return proxy.url
  }

  /** Starts a server, and returns the URL of its proxy. A server that does not start is a part of the state. */
  async start(definition: HostedServer): Promise<string> {
    const { name, title, troubles } = definition
    const proxy = await this.#startProxy(name, () => this.#lanes.get(name)?.server?.url ?? NOWHERE)
    const state = { name, title, troubles, transport: 'http', state: 'starting' } as const
    await this.#startServer({ definition, state }).catch(() => {}) // its state has the problem
    return proxy.url
  }

  /** Adds a proxy in front of a server for requests of another process, and returns its URL. */
  async addCaller(name: string, caller: Caller): Promise<string> {
    const proxy = await this.#startProxy(
      name,
      () => this.#lanes.get(name)?.server?.url ?? NOWHERE,
      caller,
    )
    return proxy.url
  }

  /** @throws UserError if the server cannot do that */
  async makeTrouble(trouble: ServerTrouble): Promise<void> {
    const lane = this.#lanes.get(trouble.server)
    if (lane === undefined) {
      throw new UserError(`No server is called "${trouble.server.slice(0, 60)}".`)
    }
    const { server, state } = lane
    if (!state.troubles.includes(trouble.name)) {
      throw new UserError(`The server ${state.name} cannot do "${trouble.name}".`)
    }
    switch (trouble.name) {
      case 'cut-connections':
        for (const proxy of this.#proxies.get(state.name) ?? []) proxy.dropConnections('both')
        return this.#notify(`All connections to ${state.name} were cut.`)
      case 'restart-server':
        return this.#restart(lane)
      case 'forget-sessions':
        this.#running(lane).forgetSessions?.()
        return this.#notify(`The server ${state.name} forgot its sessions.`)
      case 'switch-era':
        this.#running(lane).switchEra?.()
        this.#set({ ...lane, state: { ...state, revision: server?.revision() } })
        return this.#notify(`The server ${state.name} answers with ${server?.revision()} now.`)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#proxies.values()].flat().map((proxy) => proxy.stop()))
    const stops = [...this.#lanes.values()].map(async ({ server }) =>
      server?.[Symbol.asyncDispose](),
    )
    await Promise.all(stops)
  }

  async #startProxy(
    to: string,
    target: () => string,
    caller: Caller = { from: 'agent', pid: this.#agentPid },
  ): Promise<RecordingProxy> {
    const proxy = await this.#recorder.startProxy(target, { ...caller, to })
    this.#proxies.set(to, [...(this.#proxies.get(to) ?? []), proxy])
    return proxy
  }

  async #startServer(lane: Lane & { readonly definition: HostedServer }): Promise<void> {
    const { definition, state } = lane
    this.#set({ ...lane, state: { ...state, state: 'starting' } })
    try {
      const server = await definition.start()
      const revision = server.revision()
      this.#set({
        ...lane,
        server,
        state: { ...state, state: 'running', problem: undefined, revision },
      })
    } catch (cause) {
      this.#fail(lane, cause)
    }
  }

  async #restart(lane: Lane): Promise<void> {
    const { definition, server, state } = lane
    if (definition === undefined)
      throw new UserError(`The server ${state.name} cannot be restarted.`)
    if (server?.restart === undefined) return this.#startServer({ ...lane, definition })
    this.#set({ ...lane, state: { ...state, state: 'starting' } })
    try {
      await server.restart()
      this.#set({ ...lane, state: { ...state, state: 'running', problem: undefined } })
      this.#notify(`The server ${state.name} was started again.`)
    } catch (cause) {
      this.#fail(lane, cause)
    }
    return undefined
  }

  #fail(lane: Lane, cause: unknown): never {
    const reason = lineFrom(cause).slice(0, 300).replace(/\.$/, '')
    const problem = `It did not start: ${reason}. Restart it to try again.`
    this.#set({ ...lane, state: { ...lane.state, state: 'failed', problem } })
    throw new UserError(`The server ${lane.state.name} failed. ${problem}`, { cause })
  }

  #running({ server, state }: Lane): RunningServer {
    if (server === undefined)
      throw new UserError(`The server ${state.name} does not run: restart it.`)
    return server
  }

  #notify(text: string): void {
    this.#log.append({ type: 'notice', level: 'info', text })
  }

  #set(lane: Lane): void {
    this.#lanes.set(lane.state.name, lane)
    this.#log.append({ type: 'server', server: lane.state })
  }
}
