import { check } from '@x/internal'
import type { Checks } from '@x/internal'
import { SessionInfoFactory } from '@x/mcp-client'
import type { McpServer, SessionScope } from '@x/mcp-client'
import type { SessionInfo } from '@x/mcp-transport'
import { currentCall } from '../calls/call-context.ts'
import { digest, graphStoreFrom, threadNamespace } from './graph-store.ts'
import type { GraphStore } from './graph-store.ts'
import { SessionInfoLangGraphStore } from './session-info-langgraph-store.ts'
import type { SessionPlace } from './session-info-langgraph-store.ts'
import { assertOptions } from '../option-check.ts'
import { processWarnings, type ToolLog } from '../tool-log.ts'

export interface SessionInfoLangGraphStoreFactoryOptions {
  /** The store of the graph. @default that of the run in which the session is opened */
  readonly store?: GraphStore | undefined
  /** Limit of one access to the store, in milliseconds. @default 2000 */
  readonly timeoutMs?: number | undefined
  /** Told once where a session cannot be kept, and once of a store that fails. @default warnings of the Node process */
  readonly log?: ToolLog | undefined
}

const optionChecks: Checks<SessionInfoLangGraphStoreFactoryOptions> = {
  store: check.methods('get', 'put', 'delete'),
  timeoutMs: check.number(),
  log: check.func,
}

type Complaint = 'SESSION_IN_MEMORY' | 'SESSION_STORE_FAILED'

/**
 * Keeps the sessions of threads in the graph's own store: for each server, thread and principal one item
 * below `['mcp', 'session', …]`. Where there is no thread or no store, sessions stay in memory, and it
 * says so once.
 */
export class SessionInfoLangGraphStoreFactory extends SessionInfoFactory {
  readonly #options: SessionInfoLangGraphStoreFactoryOptions
  readonly #said = new Set<Complaint>()

  constructor(options: SessionInfoLangGraphStoreFactoryOptions = {}) {
    super()
    assertOptions('SessionInfoLangGraphStoreFactory', options, optionChecks)
    this.#options = options
  }

  override createSession(server: McpServer, scope: SessionScope = {}): SessionInfo {
    const { store = currentCall()?.store, timeoutMs } = this.#options
    const keeper = graphStoreFrom(store)
    const place = sessionPlaceOf(server, scope)
    const missing = keeper === undefined ? 'the run has no store' : 'the call has no `thread_id`'
    if (keeper === undefined || place === undefined) {
      // What belongs to one run alone is not for the next process.
      if (scope.run === undefined) {
        this.#say('SESSION_IN_MEMORY', server, `is kept in memory only: ${missing}`)
      }
      return super.createSession(server, scope)
    }
    return new SessionInfoLangGraphStore({
      store: keeper,
      place,
      serverUrl: server.mcpUrl ?? undefined,
      principal: scope.principal,
      timeoutMs,
      onError: (error) =>
        this.#say(
          'SESSION_STORE_FAILED',
          server,
          `could not be read or written in the store of the graph: ${String(error)}`,
        ),
    })
  }

  #say(code: Complaint, { slug, name, mcpUrl }: McpServer, what: string): void {
    if (this.#said.has(code)) return
    this.#said.add(code)
    const { log = processWarnings } = this.#options
    const title = slug ?? name ?? endpointOf(mcpUrl) ?? 'unnamed'
    log({
      level: code === 'SESSION_IN_MEMORY' ? 'info' : 'warning',
      code,
      message: `The session with MCP server "${title}" ${what}`,
      server: title,
    })
  }
}

/** Undefined for what has no place in a store: a call without a thread, or of one run only. */
function sessionPlaceOf(
  { slug, folderKey, mcpUrl }: McpServer,
  { thread, principal, run }: SessionScope,
): SessionPlace | undefined {
  if (thread === undefined || run !== undefined) return undefined
  const server = slug || mcpUrl
  if (!server) return undefined
  // A digest: an id or a URL is nobody else's business.
  return {
    namespace: threadNamespace('session', thread),
    key: digest([folderKey ?? null, slug || null, slug ? null : urlKey(server), principal ?? null]),
  }
}

/** The query counts, because it may choose the tenant; user, password and fragment do not. */
function urlKey(text: string): string {
  const url = URL.parse(text)
  if (url === null) return text
  url.username = url.password = url.hash = ''
  return url.href
}

function endpointOf(text: string | null | undefined): string | undefined {
  const url = URL.parse(text ?? '')
  return url === null ? undefined : `${url.origin}${url.pathname}`
}
