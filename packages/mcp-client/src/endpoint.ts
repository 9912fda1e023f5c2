import { untilAborted } from '@x/internal'
import { createDispatcher, McpConnection, SessionInfo, SessionSettings } from '@x/mcp-transport'
import type {
  AuthProvider,
  Dispatcher,
  ExchangeEvent,
  HeadersOption,
  StreamableHttpTransportOptions,
} from '@x/mcp-transport'
import { Deadline } from './deadline.ts'
import { findServer } from './directory/find-server.ts'
import { httpDirectory } from './directory/http-directory.ts'
import type { McpServer } from './directory/server-directory.ts'
import type { ServerConnection } from './requests.ts'
import { notExecuted } from './errors.ts'
import { DEFAULT_HANDSHAKE_MS } from './options.ts'
import { HeaderFunction } from './header-function.ts'
import { outsideRun } from './run-scope.ts'
import {
  checkServer,
  configError,
  isCommandConfig,
  isNameConfig,
  isSlugConfig,
  parseServerCommand,
  parseServerUrl,
} from './server-config.ts'
import type { McpServerConfig, ServerCommand } from './server-config.ts'
import { SessionInfoFactory } from './session-info-factory.ts'
import type { ClientSetup, ScopeSlot } from './scope-slot.ts'
import { ChildConnection } from './stdio/child-connection.ts'
import type { ChildOwner, StdioSettings } from './stdio/child-connection.ts'

/** Result of phase 1: where connections lead. A session and all that replace it share it. */
export interface Endpoint extends AsyncDisposable {
  readonly server: McpServer
  readonly sessionInfo: SessionInfo
  /**
   * Creates a connection with the dispatcher and the session store of this endpoint, or to a new child process. Sends
   * nothing yet.
   *
   * @throws McpClientError `CONFIG` for a URL or a header that cannot be used
   */
  connect(handlers: ChildOwner): ServerConnection
}

export interface EndpointOptions extends Pick<ClientSetup, 'config' | 'options'> {
  readonly era: StreamableHttpTransportOptions['era']
  /** The store of a session to continue. Undefined: the factory creates one. */
  readonly kept: SessionInfo | undefined
  readonly owner: ScopeSlot
}

/** Limit for one access to the session store, in milliseconds. */
const STORE_MS = 2000
/** Limit for finding the server, in milliseconds. */
const LOOKUP_MS = 10_000

/**
 * The second half of phase 1: creates the dispatcher and the session store. @throws McpClientError `CONFIG` for a server
 * that cannot be used
 */
export async function createEndpoint(
  server: McpServer,
  setup: EndpointOptions,
  signal: AbortSignal,
): Promise<Endpoint> {
  const command = commandOf(server, setup)
  return command === undefined
    ? endpointAtUrl(setup, server, signal)
    : childEndpoint(setup, server, command)
}

/**
 * The first half of phase 1: looks the server up in the directory, unless its URL or command is known.
 *
 * @throws McpClientError `TIMEOUT` if the server was not found within 10 s; the error of the directory
 */
export async function locateServer(
  { config, options, owner }: Pick<EndpointOptions, 'config' | 'options' | 'owner'>,
  signal: AbortSignal,
): Promise<McpServer> {
  if (isCommandConfig(config)) {
    const { command, args, env, cwd } = config
    return { command, arguments: args, environmentVariables: env, cwd }
  }
  if (!isSlugConfig(config) && !isNameConfig(config)) return { mcpUrl: String(config.url) }
  const { directory = httpDirectory(), dispatcher } = options
  const log = (level: 'info' | 'warning', message: string): void => owner.log(level, message)
  using deadline = new Deadline(LOOKUP_MS, signal)
  const query = { ...config, dispatcher }
  try {
    return await findServer({ query, directory, signal: deadline.signal, log })
  } catch (cause) {
    if (signal.aborted || !deadline.signal.aborted) throw cause
    const { server } = owner
    throw notExecuted('TIMEOUT', `MCP server "${server}" was not found within 10 s`, {
      server,
      cause,
    })
  }
}

/** True for a server that runs as a child process. */
export function isChildServer({ mcpUrl, command }: McpServer): boolean {
  return !mcpUrl && Boolean(command)
}

/**
 * Returns the command of a server that runs as a child process, or undefined for a server at a URL. The entry of a
 * directory is checked here, before a program is started.
 *
 * @throws McpClientError `CONFIG`
 */
function commandOf(
  server: McpServer,
  { options, owner }: EndpointOptions,
): ServerCommand | undefined {
  const { command = '', arguments: args, environmentVariables: env, cwd } = server
  if (!isChildServer(server)) return undefined
  if (options.era === 'modern') {
    throw configError(
      owner.server,
      'uses stdio, which supports only revisions with sessions: remove era: "modern"',
    )
  }
  return checkServer(owner.server, () => parseServerCommand({ command, args, env, cwd }))
}

/** The session of a child process ends with the process, so no store keeps it. */
function childEndpoint(
  setup: EndpointOptions,
  server: McpServer,
  command: ServerCommand,
): Endpoint {
  const { options, owner } = setup
  const children = new Set<ChildConnection>()
  let epoch = 0
  const settings: StdioSettings = {
    server: command,
    limits: options.limits,
    log: (level, message) => owner.log(level, message),
    traceContext: options.traceContext ?? owner.observer.traceContext,
    session: new SessionSettings(),
    onExited: (child) => children.delete(child),
  }
  return {
    server,
    sessionInfo: new SessionInfo(),
    connect(handlers) {
      const child = new ChildConnection(settings, ++epoch, handlers)
      children.add(child)
      return child
    },
    /** Waits until all processes have exited. */
    async [Symbol.asyncDispose]() {
      await Promise.all(Array.from(children, (child) => child.close()))
    },
  }
}

async function endpointAtUrl(
  setup: EndpointOptions,
  server: McpServer,
  signal: AbortSignal,
): Promise<Endpoint> {
  const { config, options, era, owner } = setup
  const { scope } = owner
  const { mcpUrl, headers: found } = server
  if (!mcpUrl) {
    throw configError(owner.server, 'has no URL in the directory: add one')
  }
  // Also the headers of a directory, because an error of the transport would not name the server.
  const url = checkServer(owner.server, () => parseServerUrl({ url: mcpUrl, headers: found }))
  const { limits, listen, reconnect, handshakeMs = DEFAULT_HANDSHAKE_MS } = options
  // A server that never answers the probe still has most of the time for its handshake.
  const timeouts = { probeMs: handshakeMs / 4, ...options.timeouts }
  const sessionInfo = await sessionInfoFor(server, setup, signal)
  const dispatcher = options.dispatcher ?? createDispatcher({ connectMs: timeouts?.connectMs })
  const isOwnDispatcher = dispatcher !== options.dispatcher // the caller closes a given dispatcher
  const given = owner.headerFunction ?? fixedHeaders(config) ?? found ?? {}
  const headers: HeadersOption =
    given instanceof HeaderFunction ? (request) => given.headersOf(request) : given
  const transportOptions = new ObservedOptions(
    {
      principal: scope?.principal,
      headers,
      dispatcher: outsideRuns(dispatcher),
      era,
      authProvider: authProviderFor(server, given, setup),
      traceContext: options.traceContext ?? owner.observer.traceContext,
      timeouts,
      limits,
      listen,
      reconnect,
    },
    owner,
  )
  return {
    server,
    sessionInfo,
    connect({ onNotification, onServerRequest, onError }) {
      try {
        const handlers = { sessionInfo, onNotification, onServerRequest, onError }
        return new McpConnection(url, transportOptions, handlers)
      } catch (cause) {
        const why = cause instanceof Error ? cause.message : String(cause)
        throw configError(owner.server, `cannot be used: ${why}`, { cause })
      }
    },
    async [Symbol.asyncDispose]() {
      const destroyed = isOwnDispatcher ? dispatcher.destroy() : Promise.resolve()
      for (const closing of await Promise.allSettled([destroyed, flushed(sessionInfo)])) {
        if (closing.status === 'fulfilled') continue
        owner.log('debug', 'the connection could not be closed completely', closing.reason)
      }
    },
  }
}

/**
 * Options of a transport. `onExchange` is set only while somebody listens, so that otherwise no events are created.
 * A class, because an object literal with a getter needs 1 KiB more in V8.
 */
class ObservedOptions implements StreamableHttpTransportOptions {
  readonly #owner: ScopeSlot

  constructor(options: StreamableHttpTransportOptions, owner: ScopeSlot) {
    Object.assign(this, options)
    this.#owner = owner
  }

  get onExchange(): ((event: ExchangeEvent) => void) | undefined {
    const owner = this.#owner
    return owner.events.hasListeners('exchange') ? (event) => owner.emitExchange(event) : undefined
  }
}

async function sessionInfoFor(
  server: McpServer,
  { options, kept, owner }: EndpointOptions,
  signal: AbortSignal,
): Promise<SessionInfo> {
  if (kept !== undefined) return kept
  const { sessionInfoFactory = new SessionInfoFactory() } = options
  const created = sessionInfoFactory.createSession(server, owner.scope)
  if (!(created instanceof Promise)) return created
  using deadline = new Deadline(STORE_MS, signal)
  try {
    return await untilAborted(created, deadline.signal)
  } catch (error) {
    if (!deadline.signal.aborted || signal.aborted) throw error
    owner.log(
      'warning',
      `createSession() did not return within ${STORE_MS} ms: the session is kept in memory`,
    )
    return new SessionInfo()
  }
}

function fixedHeaders(config: McpServerConfig): Readonly<Record<string, string>> | undefined {
  return 'url' in config && typeof config.headers !== 'function' ? config.headers : undefined
}

/** Credentials in this order: those of the client, an `authorization` header, those of the directory entry. */
function authProviderFor(
  server: McpServer,
  headers: object,
  { options: { authProvider }, owner: { scope } }: EndpointOptions,
): AuthProvider | undefined {
  if (authProvider !== undefined) {
    return typeof authProvider === 'function' ? authProvider(server, scope) : authProvider
  }
  const isAuthorized = Object.keys(headers).some((name) => name.toLowerCase() === 'authorization')
  return isAuthorized ? undefined : server.authProvider
}

/** A socket that is opened in a run may outlive the run and serve others. */
function outsideRuns(dispatcher: Dispatcher): Dispatcher {
  return dispatcher.compose(
    (dispatch) => (options, handler) => outsideRun(dispatch, options, handler),
  )
}

/** Waits until the session store has written everything, but at most 2 s. */
async function flushed(sessionInfo: SessionInfo): Promise<void> {
  using deadline = new Deadline(STORE_MS)
  await untilAborted(sessionInfo.flush(), deadline.signal)
}

/** Returns the session id in the store. @throws the error of the store; DeadlineError after 2 s */
export async function storedSessionId(sessionInfo: SessionInfo): Promise<string | undefined> {
  using deadline = new Deadline(STORE_MS)
  return await untilAborted(sessionInfo.getSessionId(), deadline.signal)
}
