import { assertOptions, check } from '@x/internal'
import type { Checks } from '@x/internal'
import { SessionInfoFactory } from '@x/mcp-client'
import type { McpServer, SessionScope } from '@x/mcp-client'
import { createDispatcher } from '@x/mcp-transport'
import type { SessionInfo } from '@x/mcp-transport'
import type { Dispatcher } from 'undici'
import { DebugStateClient, debugStateToken } from './debug-state-client.ts'
import { debugStateConfigFrom } from './debug-state-config.ts'
import type { DebugStateConfig, DebugStateConfigOptions } from './debug-state-config.ts'
import { DebugStateError } from './debug-state-error.ts'
import { debugStateKey } from './debug-state-key.ts'
import { SessionInfoDebugState } from './session-info-debug-state.ts'
import { Warnings } from './warnings.ts'
import type { WarningListener } from './warnings.ts'

export interface SessionInfoDebugStateFactoryOptions extends DebugStateConfigOptions {
  /** Any undici dispatcher; stays the caller's to close. @default one of the factory's own, for all its sessions */
  readonly dispatcher?: Dispatcher | undefined
  /** Limit of one request to the service. @default 2000 */
  readonly timeoutMs?: number | undefined
  /** Limit of `SessionInfo.flush()`. @default 5000 */
  readonly flushMs?: number | undefined
  /** Told once of each kind of failure. @default process.emitWarning */
  readonly onWarning?: WarningListener | undefined
  /** @default process.env */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined
}

const optionChecks: Checks<SessionInfoDebugStateFactoryOptions> = {
  baseUrl: check.string, // parsed, and refused with its own reason, by debugStateConfigFrom()
  agentId: check.string,
  token: debugStateToken,
  pathPrefix: check.string,
  dispatcher: check.dispatcher,
  timeoutMs: check.number(),
  flushMs: check.number(),
  onWarning: check.func,
  env: check.record,
}

/**
 * Keeps the sessions of one agent in a debug-state service. Where address or agent id are missing it
 * says so once, and sessions stay in memory; so do those of servers that have neither slug nor URL.
 */
export class SessionInfoDebugStateFactory extends SessionInfoFactory implements AsyncDisposable {
  readonly #options: SessionInfoDebugStateFactoryOptions
  readonly #config: DebugStateConfig | undefined
  readonly #warnings: Warnings
  #client: DebugStateClient | undefined
  #ownDispatcher: Dispatcher | undefined
  #closing: Promise<void> | undefined

  /** @throws TypeError for a `baseUrl` that is not an http(s) URL, and for an option that is unknown or cannot be used. */
  constructor(options: SessionInfoDebugStateFactoryOptions = {}) {
    super()
    assertOptions('SessionInfoDebugStateFactory', options, optionChecks)
    const { env = process.env } = options
    this.#options = options
    this.#warnings = new Warnings(options.onWarning)
    const config = debugStateConfigFrom(options, env)
    if ('missing' in config) {
      const message = `MCP sessions are kept in memory only: ${config.missing}`
      this.#warnings.report(new DebugStateError('NOT_CONFIGURED', message))
    } else {
      this.#config = config
    }
  }

  /** Whether sessions are kept in the service at all. */
  get isConfigured(): boolean {
    return this.#config !== undefined
  }

  override createSession(server: McpServer, scope: SessionScope = {}): SessionInfo {
    const key = debugStateKey(server, scope)
    if (this.#config === undefined || key === undefined) return super.createSession(server, scope)
    return new SessionInfoDebugState({
      values: (this.#client ??= this.#createClient(this.#config)),
      key,
      serverUrl: server.mcpUrl ?? undefined,
      principal: scope.principal,
      flushMs: this.#options.flushMs,
      onError: (error) => this.#warnings.report(error),
    })
  }

  /** Closes the factory's own connections. Idempotent. Sessions that it made go on in memory. */
  async close(): Promise<void> {
    await (this.#closing ??= this.#ownDispatcher?.close())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #createClient(config: DebugStateConfig): DebugStateClient {
    const { timeoutMs } = this.#options
    const dispatcher =
      this.#options.dispatcher ??
      (this.#ownDispatcher = createDispatcher({ connections: CONNECTIONS }))
    return new DebugStateClient({ ...config, dispatcher, timeoutMs })
  }
}

/** Of one kind; a small service does not need more, however many sessions there are. */
const CONNECTIONS = 4
