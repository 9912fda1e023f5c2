import { debuglog } from 'node:util'
import { assertOptions, check } from '@x/internal'
import type { Checks } from '@x/internal'
import { SessionInfoFactory } from '@x/mcp-client'
import type { McpServer, SessionInfoPurpose, SessionScope } from '@x/mcp-client'
import { createDispatcher } from '@x/mcp-transport'
import type { SessionInfo } from '@x/mcp-transport'
import type { Dispatcher } from 'undici'
import { DebugStateClient, DebugStateError } from './debug-state-client.ts'
import type { DebugStateErrorCode } from './debug-state-client.ts'
import { debugStateKey, resolveConfig } from './debug-state-config.ts'
import type { DebugStateConfig, DebugStateConfigOptions } from './debug-state-config.ts'
import { SessionInfoDebugState } from './session-info-debug-state.ts'

export interface SessionInfoDebugStateFactoryOptions extends DebugStateConfigOptions {
  /** Any undici dispatcher. The caller closes it. @default one for all sessions of the factory */
  readonly dispatcher?: Dispatcher | undefined
  /** Limit of one request to the service. @default 2000 */
  readonly timeoutMs?: number | undefined
  /**
   * Called once for each kind of failure, which the agent can live with. An exception that it throws is
   * ignored. @default process.emitWarning
   */
  readonly onWarning?: ((warning: DebugStateError) => void) | undefined
}

const optionChecks: Checks<SessionInfoDebugStateFactoryOptions> = {
  baseUrl: check.string, // resolveConfig() parses it, and refuses it with its own reason
  agentId: check.string,
  token: check.or(check.string, check.func),
  dispatcher: check.dispatcher,
  preset: check.oneOf('agenthub', 'none'),
  timeoutMs: check.number(),
  onWarning: check.func,
}

/**
 * Stores the sessions of one agent in a debug-state service. Without a service address or an agent id it warns
 * once, and sessions stay in memory. Sessions of servers with neither slug nor URL stay in memory, too.
 *
 * @example
 * ```ts
 * import { SessionInfoDebugStateFactory } from '@x/agents-debugstate'
 * import { McpClient } from '@x/mcp-client'
 *
 * await using sessionInfoFactory = new SessionInfoDebugStateFactory({ agentId: 'my-agent' })
 * await using client = new McpClient('https://shop.example/mcp', { sessionInfoFactory })
 * ```
 */
export class SessionInfoDebugStateFactory extends SessionInfoFactory implements AsyncDisposable {
  readonly #options: SessionInfoDebugStateFactoryOptions
  readonly #config: DebugStateConfig | undefined
  readonly #reported = new Set<DebugStateErrorCode>()
  #client: DebugStateClient | undefined
  #ownDispatcher: Dispatcher | undefined
  #closing: Promise<void> | undefined

  /** @throws TypeError for a `baseUrl` that is not an http(s) URL, and for options that are unknown or have a wrong value */
  constructor(options: SessionInfoDebugStateFactoryOptions = {}) {
    super()
    assertOptions('SessionInfoDebugStateFactory', options, optionChecks)
    this.#options = options
    const config = resolveConfig(options)
    if ('missing' in config) {
      const message = `MCP sessions are kept in memory only: ${config.missing}`
      this.#report(new DebugStateError('NOT_CONFIGURED', message))
    } else {
      this.#config = config
    }
  }

  override createSession(
    server: McpServer,
    scope: SessionScope = {},
    purpose?: SessionInfoPurpose,
  ): SessionInfo {
    const key = debugStateKey(server, scope, purpose)
    if (this.#config === undefined || key === undefined) return super.createSession(server, scope)
    return new SessionInfoDebugState({
      values: (this.#client ??= this.#createClient(this.#config)),
      key,
      onError: (error) => this.#report(error),
    })
  }

  /** Closes the connections of the factory. Idempotent. Its sessions go on in memory. */
  async close(): Promise<void> {
    await (this.#closing ??= this.#ownDispatcher?.close())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #createClient(config: DebugStateConfig): DebugStateClient {
    const { timeoutMs = 2000 } = this.#options
    const dispatcher =
      this.#options.dispatcher ??
      (this.#ownDispatcher = createDispatcher({ connections: CONNECTIONS }))
    return new DebugStateClient({ ...config, dispatcher, timeoutMs })
  }

  /** Reports each kind of failure once. All failures go to `NODE_DEBUG=debugstate`. */
  #report(warning: DebugStateError): void {
    debug('%s: %s', warning.code, warning.message)
    if (this.#reported.has(warning.code)) return
    this.#reported.add(warning.code)
    const { code, message } = warning
    const { onWarning } = this.#options
    try {
      if (onWarning === undefined) process.emitWarning(message, { type: 'DebugStateWarning', code })
      else onWarning(warning)
    } catch (error) {
      // A logger that fails must not fail the agent.
      debug('onWarning failed: %s', error)
    }
  }
}

/** A small service needs no more connections, however many sessions there are. */
const CONNECTIONS = 4
const debug = debuglog('debugstate')
