import { definedFields, withoutErrorLink } from '@x/internal'
import { clientOptionChecks, McpClient, McpClientError } from '@x/mcp-client'
import type {
  AuthProviderOf,
  McpClientOptions,
  McpServerConfig,
  PerServerOptions,
  ScopedRequest,
  SessionInfoSource,
  SessionScope,
  UrlConfig,
} from '@x/mcp-client'
import { createDispatcher, type AuthProvider } from '@x/mcp-transport'
import { processWarnings, type ToolLog } from '../log.ts'
import { configError } from '../options.ts'
import { serverTitle, type McpServerLabel } from '../tool-source.ts'
import {
  currentCall,
  ownConfigurable,
  type CallContexts,
  type PrincipalOf,
  type SessionMode,
} from '../graph/call-context.ts'
import { SessionInfoLangGraphStoreFactory } from '../graph/session-info-langgraph-store.ts'

/** A request to a server, with the user and the run that it is for. */
export interface ToolRequest extends ScopedRequest {
  /** `configurable` of the config that the tool was called with. */
  readonly configurable: Readonly<Record<string, unknown>>
}

/** Headers, or a function that returns them before every request. */
type ToolHeaders =
  | Readonly<Record<string, string>>
  | ((
      request: ToolRequest,
    ) => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>)

/** A server, with options of its own. Its headers may depend on the run. */
export type McpToolsServerConfig = PerServerOptions & {
  /**
   * What a session with this server belongs to. A child process is a session, so threads or runs would start one
   * process each. @default `'shared'` for a server with a `command`, else `session` of all servers
   */
  readonly session?: SessionMode | undefined
} & (
    | Exclude<McpServerConfig, UrlConfig>
    | (Omit<UrlConfig, 'headers'> & { readonly headers?: ToolHeaders | undefined })
  )

/** Options for the clients and sessions of all servers. */
export interface ServerClientsOptions extends Omit<McpClientOptions, 'scope' | 'toolsPer'> {
  /**
   * Provides the tokens of a server whose entry has no `authProvider`. A function receives the server; its
   * `name` is the key in `servers`. One provider for servers of several origins is refused (`CONFIG`),
   * because its token would reach all of them. @default none
   */
  readonly authProvider?: AuthProvider | AuthProviderOf | undefined
  /**
   * What a session belongs to, beside its server and principal. An entry of `servers` may choose otherwise.
   * - `'shared'`: all calls.
   * - `'thread'`: the calls with one `thread_id`. The session is kept in the graph's own store, so that the
   *   next process continues it, or in memory if the run has no store. `sessionInfoFactory` keeps it elsewhere.
   * - `'run'`: the calls inside one `runInSessionScope()`, which ends the session. A call outside is refused.
   * - a factory: all calls; the factory decides where the session is kept.
   *
   * @default 'shared'
   */
  readonly session?: SessionMode | SessionInfoSource | undefined
  /**
   * Returns the principal of a call: a stable name, never a token. Two principals share no session, list or
   * header. Called at every call with its config; throw to refuse the call (`CONFIG`, with your
   * error as its cause). @default one principal for all calls
   */
  readonly principal?: PrincipalOf | undefined
}

/** Creates one client for each server. The scope of each call selects the session of the client. */
export class ServerClients {
  readonly #options: ServerClientsOptions & { readonly log: ToolLog }
  readonly #common: McpClientOptions
  /** All sessions share one connection pool, because sessions are replaced more often than connections. */
  readonly #ownDispatcher: ReturnType<typeof createDispatcher> | undefined
  readonly #clients: McpClient[] = []

  constructor(options: ServerClientsOptions & { readonly log: ToolLog }) {
    const { dispatcher, timeouts } = options
    this.#options = options
    this.#ownDispatcher =
      dispatcher === undefined ? createDispatcher({ connectMs: timeouts?.connectMs }) : undefined
    this.#common = {
      ...clientOptionsFrom(options),
      dispatcher: dispatcher ?? this.#ownDispatcher,
    }
  }

  /**
   * Creates the client of one entry of `servers`, whose calls have these contexts.
   *
   * @throws {McpClientError} `CONFIG` that names the entry, for a server that cannot be used as it is configured
   */
  create(
    name: string,
    entry: McpToolsServerConfig,
    { isOneSession, mode }: CallContexts,
  ): McpClient {
    const { authProvider: ownProvider, dispatcher, era, limits, listen, ...others } = entry
    const { handshakeMs, timeoutMs, session: _session, ...server } = others
    const { authProvider: common, log } = this.#options
    const given = ownProvider ?? common
    // Providers know a server by the name that the user gave it.
    const authProvider: typeof common =
      typeof given === 'function' ? (about, of) => given({ ...about, name }, of) : given
    const limited = { dispatcher, era, limits, listen, handshakeMs, timeoutMs }
    const own = { label: name, authProvider, ...limited }
    const config = withRunHeaders(server)
    // One session for all calls needs no scope function, and is not closed when it is idle.
    const scope = mode === 'run' ? scopeInRun : currentScope
    const client = newClient(name, config, {
      ...this.#common,
      sessionInfoFactory: this.#sessionInfoFactory(mode),
      ...definedFields(own),
      toolsPer: 'principal',
      ...(!isOneSession && { scope }),
    })
    this.#clients.push(client)
    // Without a log of the user, the client itself shows its warnings.
    if (log !== processWarnings) {
      client.on('log', ({ level, message }) => {
        if (level !== 'warning') return
        log({ level, code: 'CLIENT_WARNING', message, server: name })
      })
    }
    return client
  }

  /** Ends the sessions of a thread on their servers. Never rejects. */
  async endThread(thread: string): Promise<void> {
    const disposals = this.#clients.flatMap((client) =>
      client
        .status()
        .sessions.filter(({ scope }) => scope?.thread === thread)
        .map(({ scope }) => client.dispose({ scope, terminate: true })),
    )
    await Promise.allSettled(disposals)
  }

  /** Disposes of all clients, and destroys the own dispatcher. Never rejects. */
  async disconnect(): Promise<void> {
    const disposals = this.#clients.map((client) => client.dispose())
    await Promise.allSettled(disposals)
    await this.#ownDispatcher?.destroy().catch(() => {})
  }

  #sessionInfoFactory(mode: SessionMode): SessionInfoSource | undefined {
    const { session, sessionInfoFactory, log } = this.#options
    if (typeof session === 'object') return session
    if (sessionInfoFactory !== undefined || mode !== 'thread') return sessionInfoFactory
    return new SessionInfoLangGraphStoreFactory({ log })
  }
}

function currentScope(): SessionScope {
  return currentCall()?.scope ?? {}
}

function scopeInRun(): SessionScope {
  return { ...currentScope(), run: 'current' }
}

/** Errors name the entry of `servers`. */
function newClient(name: string, config: McpServerConfig, options: McpClientOptions): McpClient {
  try {
    return new McpClient(config, options)
  } catch (cause) {
    if (!McpClientError.is(cause)) throw cause
    const about = { server: name, outcome: 'not-executed', cause } as const
    throw new McpClientError(cause.code, `servers.${name}: ${cause.message}`, about)
  }
}

/** Returns the options that a client takes, without the options of tools. */
export function clientOptionsFrom(options: McpClientOptions): McpClientOptions {
  const own = Object.entries(options).filter(([name]) => Object.hasOwn(clientOptionChecks, name))
  return Object.fromEntries(own)
}

/** Returns a config whose header function receives `configurable`. */
export function withRunHeaders(config: McpToolsServerConfig): McpServerConfig {
  if (!('url' in config)) return config
  const { headers, ...rest } = config
  if (typeof headers !== 'function') return { ...rest, headers }
  return {
    ...rest,
    headers: (request) => {
      const call = currentCall()
      // The client sends each request in the context of its principal. If that ever fails, the request must not get the headers of another user.
      const isOwn = call?.scope.principal === request.scope?.principal
      const configurable = ownConfigurable(isOwn ? (call?.config ?? {}) : {})
      return headers({ ...request, configurable })
    },
  }
}

/**
 * Throws if one provider of tokens would be used for servers of several origins, because its token would
 * reach each of them. Servers with a provider of their own and stdio servers do not count.
 *
 * @throws {McpClientError} `CONFIG`
 */
export function assertOneOrigin(authProvider: unknown, servers: readonly object[]): void {
  if (typeof authProvider !== 'object' || authProvider === null) return
  const users = servers
    .map((server) => new Map<string, unknown>(Object.entries(server)))
    .filter((server) => server.get('authProvider') === undefined && !server.has('command'))
  const origins = new Set(users.map((server) => URL.parse(String(server.get('url')))?.origin))
  if (users.length < 2 || (origins.size === 1 && !origins.has(undefined))) return
  throw configError(
    'authProvider: one provider cannot be used for several servers, unless the URLs of all of them have the same origin, because its token would reach each of them. Give each entry an `authProvider` of its own, or a function: authProvider: (server) => provider',
  )
}

/**
 * Handling of a server that gives no list of its tools: `'skip'` goes on without the server, `'throw'`
 * rejects with the error. A function receives the error; if it throws, the list rejects with its error.
 */
export type OnServerError =
  | 'skip'
  | 'throw'
  | ((error: unknown, server: McpServerLabel) => void | Promise<void>)

/** Characters of a program's standard error in a warning. */
const MAX_STDERR = 500

/**
 * Handles a failed list request as `onServerError` says.
 *
 * @param next says when the server is asked again, as a sentence
 */
export async function skipServer(
  error: unknown,
  server: McpServerLabel,
  {
    onServerError = 'skip',
    log,
    next,
  }: {
    readonly onServerError: OnServerError | undefined
    readonly log: ToolLog
    readonly next: string
  },
): Promise<void> {
  if (onServerError === 'throw') throw error
  if (onServerError !== 'skip') return onServerError(error, server)
  const title = serverTitle(server)
  const reason = withoutErrorLink(error instanceof Error ? error.message : String(error))
  const stderr = McpClientError.is(error) ? error.stderr : undefined
  const output = stderr === undefined ? '' : ` Its standard error: ${stderr.slice(-MAX_STDERR)}.`
  log({
    level: 'warning',
    code: 'SERVER_DOWN',
    message: `MCP server "${title}" is left out, because it gave no list of its tools: ${reason}.${output} ${next}`,
    server: title,
  })
}

/**
 * Limit of remote servers that are asked for their tools at the same time. A request uses a socket; a lower limit
 * would add up many slow servers.
 */
export const MAX_REMOTE_LISTS = 64

/** The same for stdio servers, which are started on this machine and use its memory. */
export const MAX_LOCAL_LISTS = 8
