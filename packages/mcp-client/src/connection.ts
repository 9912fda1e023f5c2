import { createDispatcher, StreamableHttpTransport } from '@x/mcp-transport'
import type { Dispatcher, ExchangeEvent, SessionInfo, TraceContext } from '@x/mcp-transport'
import type { ScopedOptions } from './client-options.ts'
import { Deadline } from './deadline.ts'
import { McpClientError } from './mcp-client-error.ts'
import { findServer } from './directory/find-server.ts'
import { httpDirectory } from './directory/http-directory.ts'
import type { McpServer } from './directory/mcp-server.ts'
import { FieldError, headersFrom, urlFrom } from './directory/server-fields.ts'
import { ResourceStack } from './resource-stack.ts'
import { outsideRun } from './run/run-context.ts'
import { isNameConfig, isSlugConfig, serverLabel } from './server-config.ts'
import type { McpServerConfig } from './server-config.ts'
import { SessionInfoFactory } from './session-info-factory.ts'
import { settledOrAborted } from './settled-or-aborted.ts'

/** What phase 1 makes, once in the life of a client: it outlives every session. */
export interface Connection extends AsyncDisposable {
  readonly server: McpServer
  readonly sessionInfo: SessionInfo
  /**
   * A transport on this connection's dispatcher and store.
   *
   * @throws McpClientError `CONFIG` for a URL or a header that cannot be used
   */
  createTransport(): StreamableHttpTransport
}

export interface ConnectOptions {
  readonly config: McpServerConfig
  readonly options: ScopedOptions
  readonly signal: AbortSignal
  readonly onExchange: (event: ExchangeEvent) => void
  readonly onCloseError: (error: unknown) => void
  readonly log: (level: 'info' | 'warning', message: string) => void
  /** Of the caller's trace, unless the options say otherwise. */
  readonly traceContext: () => TraceContext | undefined
}

/** A store that does not get its writes done in this time is left. */
const FLUSH_MS = 2000

/** Phase 1: finds the server, and makes the dispatcher and the place where the session is kept. */
export async function connect(setup: ConnectOptions): Promise<Connection> {
  const { config, options, onExchange, onCloseError, traceContext } = setup
  const server = await serverOf(setup)
  const url = urlOf(server, config)
  const { sessionInfoFactory = new SessionInfoFactory(), scope } = options
  const sessionInfo = sessionInfoFactory.createSession(server, scope)
  const stack = new ResourceStack(onCloseError)
  stack.defer(() => flushed(sessionInfo))
  const dispatcher = outsideRuns(options.dispatcher ?? ownDispatcher(stack, options))
  const headers = ('url' in config ? config.headers : undefined) ?? server.headers ?? {}
  return {
    server,
    sessionInfo,
    createTransport() {
      try {
        return new StreamableHttpTransport(url, {
          sessionInfo,
          principal: scope?.principal,
          headers,
          dispatcher,
          era: options.era,
          authProvider: options.authProvider,
          traceContext: options.traceContext ?? traceContext,
          timeouts: options.timeouts,
          limits: options.limits,
          reconnect: options.reconnect,
          onExchange,
        })
      } catch (cause) {
        const why = cause instanceof Error ? cause.message : String(cause)
        throw configError(config, `cannot be used: ${why}`, { cause })
      }
    },
    [Symbol.asyncDispose]: () => stack[Symbol.asyncDispose](),
  }
}

function ownDispatcher(stack: ResourceStack, options: ScopedOptions): Dispatcher {
  const dispatcher = createDispatcher({ connectMs: options.timeouts?.connectMs })
  stack.defer(() => dispatcher.destroy())
  return dispatcher
}

/** A socket that a run happens to open may outlive it, and serve others. */
function outsideRuns(dispatcher: Dispatcher): Dispatcher {
  return dispatcher.compose(
    (dispatch) => (options, handler) => outsideRun(() => dispatch(options, handler)),
  )
}

async function flushed(sessionInfo: SessionInfo): Promise<void> {
  using deadline = new Deadline(FLUSH_MS)
  await settledOrAborted(sessionInfo.flush(), deadline.signal)
}

async function serverOf({ config, options, signal, log }: ConnectOptions): Promise<McpServer> {
  if (!isSlugConfig(config) && !isNameConfig(config)) return { mcpUrl: String(config.url) }
  const { directory = httpDirectory(), dispatcher } = options
  return findServer({ query: { ...config, dispatcher }, directory, signal, log })
}

/** Also checks what a directory says of headers: an error of the transport would not name the server. */
function urlOf({ mcpUrl, headers }: McpServer, config: McpServerConfig): URL {
  if (mcpUrl === undefined || mcpUrl === null || mcpUrl === '') {
    throw configError(config, 'has no URL in the directory')
  }
  try {
    if (headers !== undefined) headersFrom('headers', headers)
    return new URL(urlFrom('mcpUrl', mcpUrl))
  } catch (cause) {
    if (!(cause instanceof FieldError)) throw cause
    throw configError(config, `cannot be used: ${cause.message}`, { cause })
  }
}

function configError(
  config: McpServerConfig,
  what: string,
  options: ErrorOptions = {},
): McpClientError {
  const server = serverLabel(config)
  return new McpClientError('CONFIG', `MCP server "${server}" ${what}`, {
    ...options,
    server,
    outcome: 'not-executed',
  })
}
