import { createDispatcher, SessionInfo, StreamableHttpTransport } from '@x/mcp-transport'
import type { AuthProvider, Dispatcher, ExchangeEvent, TraceContext } from '@x/mcp-transport'
import type { ScopedOptions } from '../client-options.ts'
import { Deadline } from '../deadline.ts'
import { McpClientError } from '../mcp-client-error.ts'
import { findServer } from '../directory/find-server.ts'
import { httpDirectory } from '../directory/http-directory.ts'
import type { McpServer } from '../directory/mcp-server.ts'
import {
  argumentsFrom,
  commandFrom,
  environmentFrom,
  FieldError,
  headersFrom,
  secretEnvKeysFrom,
  secretHeaderKeysFrom,
  urlFrom,
} from '../directory/server-fields.ts'
import { ResourceStack } from '../resource-stack.ts'
import { outsideRun } from '../run/run-context.ts'
import { headersOfScope } from '../scoped-headers.ts'
import { secretVariables, withSecretHeaders } from '../secret-source.ts'
import type { SecretsQuestion } from '../secret-source.ts'
import {
  assertSecretSource,
  isCommandConfig,
  isNameConfig,
  isSlugConfig,
  serverLabel,
} from '../server-config.ts'
import type { McpServerConfig } from '../server-config.ts'
import { SessionInfoFactory } from '../session-info-factory.ts'
import type { SessionTransport } from './session-transport.ts'
import { settledOrAborted } from '../settled-or-aborted.ts'
import type { ServerCommand } from '../stdio/start-child.ts'
import { stdioConnection } from '../stdio/stdio-connection.ts'
import { folderFrom } from '../stdio/working-folder.ts'

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

export interface ConnectOptions {
  readonly config: McpServerConfig
  readonly options: ScopedOptions
  readonly signal: AbortSignal
  readonly onExchange: (event: ExchangeEvent) => void
  /** Asked before each exchange: whether anybody wants to be told of it. */
  readonly isHeard: () => boolean
  readonly onCloseError: (error: unknown) => void
  /** Told the id of a session that was opened here, where the store has kept that of another process. */
  readonly onSuperseded: (sessionId: string) => void
  readonly log: (level: 'info' | 'warning', message: string) => void
  /** Of the caller's trace, unless the options say otherwise. */
  readonly traceContext: () => TraceContext | undefined
}

/** A store that does not get its writes done in this time is left. */
const FLUSH_MS = 2000

/** Phase 1: finds the server, and makes the dispatcher and the place where the session is kept. */
export async function connect(setup: ConnectOptions): Promise<Connection> {
  const server = await serverOf(setup)
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
  const label = serverLabel(config)
  return {
    server,
    sessionInfo: new SessionInfo(),
    ...stdioConnection({
      server: command,
      secrets: () => secretVariables(secretsQuestion(server.secretEnvKeys, server, options)),
      stdio,
      limits,
      log: (level, message) => log(level, `${label}: ${message}`),
      traceContext: options.traceContext ?? traceContext,
    }),
  }
}

function connectToUrl(setup: ConnectOptions, server: McpServer): Connection {
  const { config, options, onExchange, isHeard, onCloseError, onSuperseded, traceContext } = setup
  const url = urlOf(server, setup)
  const { sessionInfoFactory = new SessionInfoFactory(), scope } = options
  const sessionInfo = sessionInfoFactory.createSession(server, scope)
  const authProvider = authProviderOf(options)
  const stack = new ResourceStack(onCloseError)
  stack.defer(() => flushed(sessionInfo))
  stack.defer(sessionInfo.onSuperseded(onSuperseded))
  const dispatcher = outsideRuns(options.dispatcher ?? ownDispatcher(stack, options))
  const given = ('url' in config ? config.headers : undefined) ?? server.headers ?? {}
  const plain = headersOfScope(given, scope)
  const { secretHeaderKeys = [] } = server
  const headers =
    secretHeaderKeys.length === 0
      ? plain
      : withSecretHeaders(plain, secretsQuestion(secretHeaderKeys, server, options))
  const transportOptions = {
    sessionInfo,
    principal: scope?.principal,
    headers,
    dispatcher,
    era: options.era,
    authProvider,
    traceContext: options.traceContext ?? traceContext,
    timeouts: options.timeouts,
    limits: options.limits,
    reconnect: options.reconnect,
    get onExchange() {
      return isHeard() ? onExchange : undefined
    },
  }
  return {
    server,
    sessionInfo,
    createTransport() {
      try {
        return new StreamableHttpTransport(url, transportOptions)
      } catch (cause) {
        const why = cause instanceof Error ? cause.message : String(cause)
        throw configError(config, `cannot be used: ${why}`, { cause })
      }
    },
    [Symbol.asyncDispose]: () => stack[Symbol.asyncDispose](),
  }
}

function authProviderOf({ authProvider, scope }: ScopedOptions): AuthProvider | undefined {
  return typeof authProvider === 'function' ? authProvider(scope) : authProvider
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

/** Waits for what is still being stored, but not for long. */
export async function flushed(sessionInfo: SessionInfo): Promise<void> {
  using deadline = new Deadline(FLUSH_MS)
  await settledOrAborted(sessionInfo.flush(), deadline.signal)
}

async function serverOf({ config, options, signal, log }: ConnectOptions): Promise<McpServer> {
  if (isCommandConfig(config)) {
    const { command, args, env, cwd, secretEnvKeys } = config
    return { command, arguments: args, environmentVariables: env, cwd, secretEnvKeys }
  }
  if (!isSlugConfig(config) && !isNameConfig(config)) {
    const { url, secretHeaderKeys } = config
    return { mcpUrl: String(url), secretHeaderKeys }
  }
  const { directory = httpDirectory(), dispatcher } = options
  return findServer({ query: { ...config, dispatcher }, directory, signal, log })
}

/** A directory may be anything: what it says of a program is checked before one is started. */
function commandOf(
  server: McpServer,
  { config, options }: ConnectOptions,
): ServerCommand | undefined {
  const { mcpUrl, command, arguments: args, environmentVariables: env, cwd } = server
  const { secretEnvKeys } = server
  const hasUrl = mcpUrl !== undefined && mcpUrl !== null && mcpUrl !== ''
  if (hasUrl || command === undefined || command === '') return undefined
  if (options.era === 'modern') {
    throw configError(config, 'is on stdio, which is spoken to in the revisions with sessions only')
  }
  try {
    if (secretEnvKeys !== undefined) secretEnvKeysFrom('secretEnvKeys', secretEnvKeys)
    assertSecretSource({ secretEnvKeys }, options.secrets)
    return {
      command: commandFrom('command', command),
      args: argumentsFrom('args', args ?? []),
      env: environmentFrom('env', env ?? {}),
      cwd: cwd === undefined ? undefined : folderFrom('cwd', cwd),
    }
  } catch (cause) {
    if (!(cause instanceof FieldError)) throw cause
    throw configError(config, `cannot be used: ${cause.message}`, { cause })
  }
}

/** Also checks what a directory says of headers: an error of the transport would not name the server. */
function urlOf(server: McpServer, { config, options }: ConnectOptions): string {
  const { mcpUrl, headers, secretHeaderKeys } = server
  if (mcpUrl === undefined || mcpUrl === null || mcpUrl === '') {
    throw configError(config, 'has no URL in the directory')
  }
  try {
    if (headers !== undefined) headersFrom('headers', headers)
    if (secretHeaderKeys !== undefined) secretHeaderKeysFrom('secretHeaderKeys', secretHeaderKeys)
    assertSecretSource({ secretHeaderKeys }, options.secrets)
    return urlFrom('mcpUrl', mcpUrl)
  } catch (cause) {
    if (!(cause instanceof FieldError)) throw cause
    throw configError(config, `cannot be used: ${cause.message}`, { cause })
  }
}

function secretsQuestion(
  keys: readonly string[] = [],
  server: McpServer,
  { secrets, scope }: ScopedOptions,
): SecretsQuestion {
  return { keys, ask: (key) => secrets?.(key, server, scope) }
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
