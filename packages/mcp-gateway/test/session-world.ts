import {
  ProtocolError,
  type Implementation,
  type InputRequiredResult,
  type Result,
  type ServerCapabilities,
} from '@modelcontextprotocol/server'

import { anonymousPrincipal, type Principal } from '../src/internal/principal.ts'
import { ChangeFeed } from '../src/mcp/change-feed.ts'
import type { McpHandlers } from '../src/mcp/handlers.ts'
import type { RequestContext } from '../src/mcp/request-context.ts'
import { OpenStreams } from '../src/mcp/open-streams.ts'
import { toResponse } from '../src/http/web-edge.ts'
import { SessionHttp } from '../src/mcp/session-http.ts'
import { SESSION_LIMITS, type SessionLimits, type SessionStore } from '../src/mcp/sessions.ts'
import { ProcessLease } from '../src/store/lease.ts'
import { MemoryGatewayStore } from '../src/store/memory-store.ts'
import { ManualClock, settled } from './manual-clock.ts'

export type Tool = (context: RequestContext, text: string) => Promise<string> | string

export type Fetch = (request: Request) => Promise<Response>

interface SessionProcess {
  readonly http: SessionHttp
  readonly lease: ProcessLease
  readonly changes: ChangeFeed
  readonly fetch: Fetch
  /** Ends the lease of the process, as its death does: other processes see it as dead. */
  kill(): Promise<void>
}

export interface SessionWorld extends AsyncDisposable {
  /** The first process. */
  readonly a: Fetch
  /** Another process with the same store. */
  readonly b: Fetch
  readonly processes: readonly [SessionProcess, SessionProcess, ...SessionProcess[]]
  readonly clock: ManualClock
  readonly store: SessionStore
  /** Texts of the calls that were run. */
  readonly runs: string[]
  readonly warnings: string[]
  /** Events that the observer received: `opened`, or the reason of an end. */
  readonly observed: string[]
}

export interface SessionWorldOptions {
  readonly tools?: Readonly<Record<string, Tool>>
  readonly settings?: Partial<SessionLimits>
  readonly questionTimeoutMs?: number
  readonly isShared?: boolean
  /** @default 2 */
  readonly processes?: number
  readonly wrap?: (store: SessionStore) => SessionStore
}

const SETTINGS: SessionLimits = {
  idleTtlMs: 1_800_000,
  max: 10_000,
  maxPerPrincipal: 100,
  ...SESSION_LIMITS,
}

/** Handlers whose tools return a text. */
class TestServer implements McpHandlers {
  readonly serverInfo: Implementation = { name: 'test', version: '1.0.0' }
  readonly instructions = 'Use the tools'
  readonly #tools: Readonly<Record<string, Tool>>
  readonly #runs: string[]

  constructor(tools: Readonly<Record<string, Tool>>, runs: string[]) {
    this.#tools = tools
    this.#runs = runs
  }

  capabilities(): ServerCapabilities {
    const listChanged = true
    return {
      tools: { listChanged },
      prompts: { listChanged },
      resources: { listChanged },
      logging: {},
    }
  }

  handle(
    method: string,
    params: Readonly<Record<string, unknown>>,
    context: RequestContext,
  ): Promise<Result | InputRequiredResult> | Result {
    const {
      name = method,
      arguments: args,
      uri,
    } = params as {
      name?: string
      arguments?: { message?: string }
      uri?: string
    }
    if (method === 'tools/list') return { tools: [] }
    if (method === 'resources/subscribe') return this.#subscribe(context, uri ?? '')
    if (method === 'resources/unsubscribe') return this.#unsubscribe(context, uri ?? '')
    const tool =
      method === 'tools/call' || method === 'resources/read' ? this.#tools[name] : undefined
    if (!tool) throw new ProtocolError(-32_601, `Method not found: ${method}`)
    return this.#call(tool, context, args?.message ?? '')
  }

  async #call(tool: Tool, context: RequestContext, text: string): Promise<Result> {
    this.#runs.push(text)
    return { content: [{ type: 'text', text: await tool(context, text) }] }
  }

  async #subscribe(context: RequestContext, uri: string): Promise<Result> {
    if (await context.subscribe?.(uri)) return {}
    throw new ProtocolError(-32_602, 'The session has too many subscriptions')
  }

  async #unsubscribe(context: RequestContext, uri: string): Promise<Result> {
    await context.unsubscribe?.(uri)
    return {}
  }
}

/** Two processes that serve the same sessions. */
export function sessionWorld(options: SessionWorldOptions = {}): SessionWorld {
  const { isShared = true, wrap = (store) => store } = options
  const clock = new ManualClock()
  const memory = new MemoryGatewayStore({ now: () => clock.now() })
  const { records, logs, rates } = memory
  const store = wrap({ records, logs, rates, isShared, isDurable: isShared })
  const runs: string[] = []
  const warnings: string[] = []
  const observed: string[] = []
  const start = (): SessionProcess => {
    const lease = new ProcessLease(store.records, clock)
    const settings = { ...SETTINGS, ...options.settings }
    const onError = ({ message }: Error): void => void warnings.push(message)
    const changes = new ChangeFeed({
      logs: store.logs,
      clock,
      onError,
    })
    void changes.start()
    const http = new SessionHttp({
      handlers: new TestServer(options.tools ?? {}, runs),
      store,
      lease,
      changes,
      settings,
      questionTimeoutMs: options.questionTimeoutMs ?? 60_000,
      streams: new OpenStreams(100, 100, clock),
      observer: {
        sessionOpened: () => void observed.push('opened'),
        sessionClosed: ({ reason }) => void observed.push(reason),
      },
      clock,
      onError,
    })
    return {
      http,
      lease,
      changes,
      fetch: (request) => serve(http, request),
      kill: () => lease[Symbol.asyncDispose](),
    }
  }
  const more = Array.from({ length: (options.processes ?? 2) - 2 }, start)
  const processes = [start(), start(), ...more] as const
  return {
    a: processes[0].fetch,
    b: processes[1].fetch,
    processes,
    clock,
    store,
    runs,
    warnings,
    observed,
    [Symbol.asyncDispose]: async () => {
      for (const { changes, http } of processes) {
        await changes.close()
        await http.close()
      }
      for (const { lease } of processes) await lease[Symbol.asyncDispose]()
      await memory.close()
    },
  }
}

async function serve(http: SessionHttp, request: Request): Promise<Response> {
  const { headers, method, signal } = request
  const text = await request.text()
  const body: unknown = text === '' ? undefined : JSON.parse(text)
  const principal = principalOf(headers.get('authorization'))
  const address = headers.get('x-address') ?? undefined
  const reply = await http.serve({ method, headers }, body, { principal, address })
  return toResponse(reply, signal)
}

function principalOf(name: string | null): Principal {
  if (name === null) return anonymousPrincipal()
  return { id: name, scopes: ['*'], isAnonymous: false, claims: {} }
}

/** Waits some turns of the event loop, with all promises in between. */
export async function turnsPass(count = 10): Promise<void> {
  for (let left = count; left > 0; left--) await settled()
}
