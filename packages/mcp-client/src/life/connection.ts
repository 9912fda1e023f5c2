import { createDispatcher, SessionInfo, StreamableHttpTransport } from '@x/mcp-transport'
import type { AuthProvider, Dispatcher, TraceContext } from '@x/mcp-transport'
import type { ScopedOptions } from '../client-options.ts'
import { Deadline } from '../deadline.ts'
import type { McpServer } from '../directory/server-directory.ts'
import { outsideRun } from '../run/run-context.ts'
import { headersOfScope } from '../scoped-headers.ts'
import type { ScopedHeaders } from '../scoped-headers.ts'
import { secretVariables, withSecretHeaders } from '../secret-source.ts'
import type { SecretsQuestion } from '../secret-source.ts'
import { serverLabel } from '../server-config.ts'
import { SessionInfoFactory } from '../session-info-factory.ts'
import { locateServer } from './locate-server.ts'
import type { LocateServerOptions } from './locate-server.ts'
import { ObservedOptions, type Observer } from './observed-options.ts'
import { commandOf, configError, urlOf } from './server-address.ts'
import type { SessionTransport } from './session-transport.ts'
import { settledOrAborted } from '../settled-or-aborted.ts'
import type { ServerCommand } from '../stdio/start-child.ts'
import { StdioConnection } from '../stdio/stdio-connection.ts'

/** What phase 1 makes, once in the life of a client: it outlives every session. */
export interface Connection extends AsyncDisposable {
  readonly server: McpServer
  readonly sessionInfo: SessionInfo
  /**
   * A transport on this connection's dispatcher and store, or on a new child process.
   *
   * @throws McpClientError `CONFIG` for a URL or a header that cannot be used
   */
  createTransport(): SessionTransport
}

export interface ConnectOptions extends LocateServerOptions, Observer {
  readonly onCloseError: (error: unknown) => void
  /** Told the id of a session that was opened here, where the store has kept that of another process. */
  readonly onSuperseded: (sessionId: string) => void
  /** Of the caller's trace, unless the options say otherwise. */
  readonly traceContext: () => TraceContext | undefined
}

/** A store that takes longer is left. */
const STORE_MS = 2000

/** Phase 1: finds the server, and makes the dispatcher and the place where the session is kept. */
export async function connect(setup: ConnectOptions): Promise<Connection> {
  const server = await locateServer(setup)
  const command = commandOf(server, setup)
  return command === undefined
    ? connectToUrl(setup, server)
    : connectToChild(setup, server, command)
}

/** A child process is its own session: nothing of it is kept, and nothing can go on with it. */
function connectToChild(
  { config, options, log, traceContext }: ConnectOptions,
  server: McpServer,
  command: ServerCommand,
): Connection {
  const { stdio, limits } = options
  const label = options.label ?? serverLabel(config)
  const connection = new StdioConnection({
    server: command,
    secrets: () => secretVariables(secretsQuestion(server.secretEnvKeys, server, options)),
    stdio,
    limits,
    log: (level, message) => log(level, `${label}: ${message}`),
    traceContext: options.traceContext ?? traceContext,
  })
  return {
    server,
    sessionInfo: new SessionInfo(),
    createTransport: () => connection.createTransport(),
    [Symbol.asyncDispose]: () => connection[Symbol.asyncDispose](),
  }
}

async function connectToUrl(setup: ConnectOptions, server: McpServer): Promise<Connection> {
  const { config, options, onCloseError, onSuperseded, traceContext } = setup
  const url = urlOf(server, setup)
  const { scope, era, timeouts, limits, reconnect } = options
  const sessionInfo = await sessionInfoFor(server, setup)
  const stopListening = sessionInfo.onSuperseded(onSuperseded)
  const dispatcher = options.dispatcher ?? createDispatcher({ connectMs: timeouts?.connectMs })
  const isOwnDispatcher = dispatcher !== options.dispatcher // others are closed by whoever gave them
  const given = ('url' in config ? config.headers : undefined) ?? server.headers ?? {}
  const plain = headersOfScope(given, scope)
  const { secretHeaderKeys = [] } = server
  const headers =
    secretHeaderKeys.length === 0
      ? plain
      : withSecretHeaders(plain, secretsQuestion(secretHeaderKeys, server, options))
  const authProvider = authProviderFor(server, given, options)
  const transportOptions = new ObservedOptions(
    {
      sessionInfo,
      principal: scope?.principal,
      headers,
      dispatcher: outsideRuns(dispatcher),
      era,
      authProvider,
      traceContext: options.traceContext ?? traceContext,
      timeouts,
      limits,
      reconnect,
    },
    setup,
  )
  return {
    server,
    sessionInfo,
    createTransport() {
      try {
        return new StreamableHttpTransport(url, transportOptions)
      } catch (cause) {
        const why = cause instanceof Error ? cause.message : String(cause)
        // Not `setup`: the connection would keep it, with the signal of the first opening.
        throw configError({ config, options }, `cannot be used: ${why}`, { cause })
      }
    },
    async [Symbol.asyncDispose]() {
      const closers: (() => unknown)[] = [
        () => isOwnDispatcher && dispatcher.destroy(),
        stopListening,
        () => flushed(sessionInfo),
      ]
      for (const close of closers) {
        try {
          await close()
        } catch (error) {
          onCloseError(error)
        }
      }
    },
  }
}

async function sessionInfoFor(
  server: McpServer,
  { options, signal, log }: ConnectOptions,
): Promise<SessionInfo> {
  const { sessionInfoFactory = new SessionInfoFactory(), scope } = options
  const made = sessionInfoFactory.createSession(server, scope)
  if (!(made instanceof Promise)) return made
  using deadline = new Deadline(STORE_MS, signal)
  try {
    return await settledOrAborted(made, deadline.signal)
  } catch (error) {
    if (!deadline.signal.aborted || signal.aborted) throw error
    log(
      'warning',
      `createSession() gave no answer within ${STORE_MS} ms: the session is kept in memory`,
    )
    return new SessionInfo()
  }
}

/** The client's own credentials first, then an `authorization` header, then what the directory names. */
function authProviderFor(
  server: McpServer,
  headers: ScopedHeaders,
  { authProvider, scope }: ScopedOptions,
): AuthProvider | undefined {
  if (authProvider !== undefined) {
    return typeof authProvider === 'function' ? authProvider(server, scope) : authProvider
  }
  const names = [...Object.keys(headers), ...(server.secretHeaderKeys ?? [])]
  const isAuthorized = names.some((name) => name.toLowerCase() === 'authorization')
  return isAuthorized ? undefined : server.authProvider
}

/** A socket that a run happens to open may outlive it, and serve others. */
function outsideRuns(dispatcher: Dispatcher): Dispatcher {
  return dispatcher.compose(
    (dispatch) => (options, handler) => outsideRun(() => dispatch(options, handler)),
  )
}

/** Waits for what is still being stored, but not for long. */
export async function flushed(sessionInfo: SessionInfo): Promise<void> {
  using deadline = new Deadline(STORE_MS)
  await settledOrAborted(sessionInfo.flush(), deadline.signal)
}

/** The session that the store names. @throws what the store throws; DeadlineError after 2 s */
export async function storedSessionId(sessionInfo: SessionInfo): Promise<string | undefined> {
  using deadline = new Deadline(STORE_MS)
  return await settledOrAborted(sessionInfo.getSessionId(), deadline.signal)
}

function secretsQuestion(
  keys: readonly string[] = [],
  server: McpServer,
  { secrets, scope }: ScopedOptions,
): SecretsQuestion {
  return { keys, ask: (key) => secrets?.(key, server, scope) }
}
