import type { Exchange, ExchangeKind } from './events.ts'

/** What a proxy has seen of an exchange so far. Its fields fill up while the exchange goes on. */
export interface ObservedExchange {
  readonly httpMethod: string
  readonly rpcMethod?: string | undefined
  /** In full. */
  readonly sessionId?: string | undefined
  /** Session id of the answer to `initialize`, in full. */
  readonly assignedSessionId?: string | undefined
  readonly status?: number | undefined
  readonly response?: { readonly body: string } | undefined
}

/** Who sends an exchange to whom. */
export interface Route {
  /** A process: its name and process id, because a new process knows nothing of its predecessor. */
  readonly from: string
  readonly to: string
}

/** Name of the lane of the debug-state service. */
export const DEBUG_STATE = 'debug-state'

/** Codes of JSON-RPC errors with which servers refuse a session or a protocol revision. */
const REFUSALS: readonly unknown[] = [-32_000, -32_001, -32_022, -32_600]

/** What is known about a process at a server. */
interface Acquaintance {
  /** The process has sent a handshake, or gone on in a session of another process. */
  isKnown: boolean
  /** Session of the last handshake, or the stored session that the process took up. */
  sessionId: string | undefined
  /** The server has refused that session, and no handshake has succeeded since. */
  isLost: boolean
  /** Kind of the last handshake: the notification that ends a handshake is of the same kind. */
  handshake: 'handshake' | 'recovery'
}

/** Tells the kinds of exchanges. It remembers which process has which session at which server. */
export class Classifier {
  readonly #acquaintances = new Map<string, Acquaintance>()
  /** Servers that have answered a handshake of any process. */
  readonly #servers = new Set<string>()
  /** Kinds at the start of exchanges. */
  readonly #started = new WeakMap<ObservedExchange, ExchangeKind>()

  /**
   * Kind of an exchange. Ask again with the same object when the exchange was answered, and when it has
   * ended: a refused call turns out to be the loss of a session.
   */
  kindOf(route: Route, exchange: ObservedExchange): ExchangeKind {
    if (route.to === DEBUG_STATE) return 'state'
    const key = JSON.stringify([route.from, route.to])
    const known = this.#acquaintances.get(key) ?? {
      isKnown: false,
      sessionId: undefined,
      isLost: false,
      handshake: 'handshake',
    }
    this.#acquaintances.set(key, known)
    let kind = this.#started.get(exchange)
    if (kind === undefined) {
      kind = this.#kindAtStart(route, exchange, known)
      this.#started.set(exchange, kind)
    }
    return exchange.status === undefined
      ? kind
      : this.#kindOfAnswered(route, exchange, { known, kind })
  }

  #kindAtStart(route: Route, exchange: ObservedExchange, known: Acquaintance): ExchangeKind {
    const { httpMethod, rpcMethod, sessionId } = exchange
    if (rpcMethod === 'initialize' || rpcMethod === 'server/discover') {
      known.handshake = known.isLost ? 'recovery' : 'handshake'
      return known.handshake
    }
    if (rpcMethod === 'notifications/initialized') return known.handshake
    if (httpMethod === 'GET' || rpcMethod === 'subscriptions/listen') return 'stream'
    if (rpcMethod === undefined) return 'other'
    const isStored = sessionId !== undefined || this.#servers.has(route.to)
    if (!known.isKnown && isStored) {
      known.isKnown = true
      known.sessionId = sessionId
      return 'resume'
    }
    return rpcMethod === 'tools/call' ? 'call' : 'other'
  }

  #kindOfAnswered(
    route: Route,
    exchange: ObservedExchange,
    { known, kind }: { readonly known: Acquaintance; readonly kind: ExchangeKind },
  ): ExchangeKind {
    const { httpMethod, rpcMethod, sessionId, assignedSessionId, status = 0 } = exchange
    if (rpcMethod === 'initialize' || rpcMethod === 'server/discover') {
      if (status >= 400) return kind
      this.#servers.add(route.to)
      known.isKnown = true
      if (assignedSessionId !== known.sessionId || assignedSessionId === undefined) {
        known.sessionId = assignedSessionId
        known.isLost = false
      }
      return kind
    }
    if (httpMethod === 'DELETE' || !isRefusal(exchange)) return kind
    if (!known.isKnown) {
      if (sessionId === undefined) return 'handshake' // the client finds out which revision the server speaks
      known.isKnown = true
      known.sessionId = sessionId
    }
    // A late refusal of an earlier session does not lose the new one.
    if (sessionId === known.sessionId) known.isLost = true
    return 'loss'
  }
}

const STREAM = 'listening stream'
/** Labels of requests without a JSON-RPC message. */
const LABELS: Readonly<Record<string, string>> = { GET: STREAM, DELETE: 'end of the session' }
const STATE_LABELS: Readonly<Record<string, string>> = {
  GET: 'load',
  PUT: 'store',
  DELETE: 'clear',
}

/** Label of an exchange: its tool, its method, or the purpose of a request without either. */
export function labelOf({ kind, httpMethod, rpcMethod, toolName }: Exchange): string {
  const labels = kind === 'state' ? STATE_LABELS : LABELS
  if (rpcMethod === 'subscriptions/listen') return STREAM
  return toolName ?? rpcMethod?.replace('notifications/', '') ?? labels[httpMethod] ?? httpMethod
}

/** The server refuses the session, or the revision, of a request. */
function isRefusal({ status, sessionId, response }: ObservedExchange): boolean {
  if (status === 404) return sessionId !== undefined
  return status === 400 && REFUSALS.includes(errorCodeIn(response?.body ?? ''))
}

/** Code of a JSON-RPC error. */
function errorCodeIn(body: string): unknown {
  try {
    return JSON.parse(body)?.error?.code
  } catch {
    return undefined
  }
}
