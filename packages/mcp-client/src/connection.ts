import { createDispatcher, StreamableHttpTransport } from '@x/mcp-transport'
import type { Dispatcher, ExchangeEvent, SessionInfo } from '@x/mcp-transport'
import type { McpClientOptions } from './client-options.ts'
import { McpClientError } from './mcp-client-error.ts'
import type { McpServer } from './mcp-server.ts'
import { ResourceStack } from './resource-stack.ts'
import { serverLabel } from './server-config.ts'
import type { McpServerConfig } from './server-config.ts'
import { SessionInfoFactory } from './session-info-factory.ts'

/** What phase 1 makes, once in the life of a client: it outlives every session. */
export interface Connection extends AsyncDisposable {
  readonly server: McpServer
  readonly sessionInfo: SessionInfo
  /** A transport on this connection's dispatcher and store. */
  createTransport(): StreamableHttpTransport
}

export interface ConnectOptions {
  readonly config: McpServerConfig
  readonly options: McpClientOptions
  readonly signal: AbortSignal
  readonly onExchange: (event: ExchangeEvent) => void
  readonly onCloseError: (error: unknown) => void
}

/** Phase 1: finds the server, and makes the dispatcher and the place where the session is kept. */
export async function connect(setup: ConnectOptions): Promise<Connection> {
  const { config, options, signal, onExchange, onCloseError } = setup
  const server = await findServer(config, options, signal)
  const url = urlOf(server, config)
  const stack = new ResourceStack(onCloseError)
  const dispatcher = options.dispatcher ?? ownDispatcher(stack, options)
  const { sessionInfoFactory = new SessionInfoFactory(), scope } = options
  const sessionInfo = sessionInfoFactory.createSession(server, scope)
  stack.defer(() => sessionInfo.flush())
  const headers = ('url' in config ? config.headers : undefined) ?? server.headers ?? {}
  return {
    server,
    sessionInfo,
    createTransport: () =>
      new StreamableHttpTransport(url, {
        sessionInfo,
        principal: scope?.principal,
        headers,
        dispatcher,
        timeouts: options.timeouts,
        limits: options.limits,
        reconnect: options.reconnect,
        onExchange,
      }),
    [Symbol.asyncDispose]: () => stack[Symbol.asyncDispose](),
  }
}

function ownDispatcher(stack: ResourceStack, options: McpClientOptions): Dispatcher {
  const dispatcher = createDispatcher({ connectMs: options.timeouts?.connectMs })
  stack.defer(() => dispatcher.destroy())
  return dispatcher
}

async function findServer(
  config: McpServerConfig,
  { directory }: McpClientOptions,
  signal: AbortSignal,
): Promise<McpServer> {
  if ('url' in config) return { mcpUrl: String(config.url) }
  if (directory === undefined) {
    throw configError(config, 'is named, but the client was given no directory to find it in')
  }
  return directory.retrieve({ ...config, signal })
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

function configError(config: McpServerConfig, what: string): McpClientError {
  const server = serverLabel(config)
  return new McpClientError('CONFIG', `MCP server "${server}" ${what}`, { server })
}
