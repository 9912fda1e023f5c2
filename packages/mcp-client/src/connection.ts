import { createDispatcher, StreamableHttpTransport } from '@x/mcp-transport'
import type { Dispatcher, ExchangeEvent, SessionInfo } from '@x/mcp-transport'
import type { McpClientOptions } from './client-options.ts'
import { Deadline } from './deadline.ts'
import { McpClientError } from './mcp-client-error.ts'
import type { McpServer } from './directory/mcp-server.ts'
import { ResourceStack } from './resource-stack.ts'
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
  readonly options: McpClientOptions
  readonly signal: AbortSignal
  readonly onExchange: (event: ExchangeEvent) => void
  readonly onCloseError: (error: unknown) => void
}

/** A store that does not get its writes done in this time is left. */
const FLUSH_MS = 2000

/** Phase 1: finds the server, and makes the dispatcher and the place where the session is kept. */
export async function connect(setup: ConnectOptions): Promise<Connection> {
  const { config, options, signal, onExchange, onCloseError } = setup
  const server = await findServer(config, options, signal)
  const url = urlOf(server, config)
  const { sessionInfoFactory = new SessionInfoFactory(), scope } = options
  const sessionInfo = sessionInfoFactory.createSession(server, scope)
  const stack = new ResourceStack(onCloseError)
  stack.defer(() => flushed(sessionInfo))
  const dispatcher = options.dispatcher ?? ownDispatcher(stack, options)
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
          traceContext: options.traceContext,
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

function ownDispatcher(stack: ResourceStack, options: McpClientOptions): Dispatcher {
  const dispatcher = createDispatcher({ connectMs: options.timeouts?.connectMs })
  stack.defer(() => dispatcher.destroy())
  return dispatcher
}

async function flushed(sessionInfo: SessionInfo): Promise<void> {
  using deadline = new Deadline(FLUSH_MS)
  await settledOrAborted(sessionInfo.flush(), deadline.signal)
}

async function findServer(
  config: McpServerConfig,
  { directory }: McpClientOptions,
  signal: AbortSignal,
): Promise<McpServer> {
  if (!isSlugConfig(config) && !isNameConfig(config)) return { mcpUrl: String(config.url) }
  if (directory === undefined) {
    throw configError(config, 'is named, but the client was given no directory to find it in')
  }
  // A directory may not know what a signal is: it shall not keep anybody waiting for that.
  return settledOrAborted(directory.retrieve({ ...config, signal }), signal)
}

function urlOf(server: McpServer, config: McpServerConfig): URL {
  const { mcpUrl } = server
  if (mcpUrl === undefined || mcpUrl === null || mcpUrl === '') {
    throw configError(config, 'has no URL in the directory')
  }
  if (!URL.canParse(mcpUrl)) {
    throw configError(config, 'has a URL that is not absolute, like "https://host/mcp"')
  }
  return new URL(mcpUrl)
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
