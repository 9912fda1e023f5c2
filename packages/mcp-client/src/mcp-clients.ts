import { ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js'
import type { Tool } from '@modelcontextprotocol/sdk/types.js'
import type { AroundOperation, CallOptions, McpClientOptions } from './client-options.ts'
import { mapBounded } from './map-bounded.ts'
import { McpClient } from './mcp-client.ts'
import { McpClientError } from './mcp-client-error.ts'
import { closeNewestFirst, warnOfCloseError } from './run/close-newest-first.ts'
import type { SessionPool } from './run/session-pool.ts'
import type { McpServerConfig } from './server-config.ts'

export interface McpClientsOptions extends McpClientOptions {
  /** How many servers are asked at a time. @default 8 */
  readonly concurrency?: number | undefined
  /**
   * Gives the clients, where their sessions belong to runs; with the pool's options, not with these. It
   * is not disposed of with them. @default clients of their own
   */
  readonly pool?: SessionPool | undefined
}

/** What became of one of the servers. */
export interface ServerStatus {
  /** As in the config. */
  readonly name: string
  /** `untried` before it is first asked for its tools; then whether it gave them the last time. */
  readonly state: 'untried' | 'up' | 'down'
  /** Why it is down. */
  readonly error?: unknown
}

/** What one of the servers offers. */
export interface ServerTools {
  /** As in the config. */
  readonly name: string
  readonly client: McpClient
  readonly tools: readonly Tool[]
}

interface Member {
  readonly name: string
  readonly client: McpClient
  status: ServerStatus
}

const CONCURRENCY = 8
const LIST_MS = 60_000
const METHOD_NOT_FOUND: number = ErrorCode.MethodNotFound

/** A client for each of several servers. One that is down costs the others nothing. */
export class McpClients implements AsyncDisposable {
  readonly #members: readonly Member[]
  readonly #concurrency: number
  readonly #ownsClients: boolean
  #isClosed = false

  /** Opens nothing. @throws McpClientError `CONFIG` for a config that names no server, or several. */
  constructor(servers: Readonly<Record<string, McpServerConfig>>, options: McpClientsOptions = {}) {
    const { concurrency = CONCURRENCY, pool, around = justRun, ...rest } = options
    if (!(concurrency >= 1)) throw new TypeError('concurrency is a number from 1 on')
    const open: AroundOperation = (operation, about) => {
      if (this.#isClosed) throw closedError(about.server)
      return around(operation, about)
    }
    const createClient = (config: McpServerConfig): McpClient =>
      pool?.acquire(config) ?? new McpClient(config, { ...rest, around: open })
    this.#concurrency = concurrency
    this.#ownsClients = pool === undefined
    this.#members = Object.entries(servers).map(([name, config]) => ({
      name,
      client: createClient(config),
      status: { name, state: 'untried' },
    }))
  }

  /** In the order of the config. */
  get names(): readonly string[] {
    return this.#members.map(({ name }) => name)
  }

  /** The client of one server; undefined if the config has none of that name. */
  get(name: string): McpClient | undefined {
    return this.#members.find((member) => member.name === name)?.client
  }

  /** What is known of each server, in the order of the config. Asks nobody. */
  status(): readonly ServerStatus[] {
    return this.#members.map(({ status }) => status)
  }

  /**
   * The tools of all servers that answer within `timeoutMs` (60 s), in the order of the config; `status()`
   * says which do not, and why. Opens a session with each that has none.
   *
   * @throws the reason of `signal`; McpClientError `CLOSED` after `dispose()`
   */
  async listTools(
    options: CallOptions & { readonly forceRefresh?: boolean | undefined } = {},
  ): Promise<readonly ServerTools[]> {
    const { timeoutMs = LIST_MS, signal } = options
    const lists = await mapBounded(this.#members, {
      concurrency: this.#concurrency,
      map: async (member) => {
        if (this.#isClosed) throw closedError(member.name)
        signal?.throwIfAborted()
        return this.#list(member, { ...options, timeoutMs })
      },
    })
    return lists.filter((list) => list !== undefined)
  }

  /** Closes all of them, the last one first. What fails is told by each client as `log`; never throws. */
  async dispose(): Promise<void> {
    this.#isClosed = true
    if (!this.#ownsClients) return
    await closeNewestFirst(
      this.#members.map(
        ({ client }) =>
          () =>
            client.dispose(),
      ),
      { onError: warnOfCloseError },
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.dispose()
  }

  async #list(
    member: Member,
    options: CallOptions & { readonly forceRefresh?: boolean | undefined },
  ): Promise<ServerTools | undefined> {
    const { name, client } = member
    try {
      const tools = await client.listTools(options)
      member.status = { name, state: 'up' }
      return { name, client, tools }
    } catch (error) {
      options.signal?.throwIfAborted()
      // A server without tools is there all the same.
      if (error instanceof McpError && error.code === METHOD_NOT_FOUND) {
        member.status = { name, state: 'up' }
        return { name, client, tools: [] }
      }
      member.status = { name, state: 'down', error }
      return undefined
    }
  }
}

function justRun<T>(operation: () => Promise<T>): Promise<T> {
  return operation()
}

function closedError(server: string): McpClientError {
  const message = `MCP server "${server}" was called after its clients were disposed of`
  return new McpClientError('CLOSED', message, { server, outcome: 'not-executed' })
}
