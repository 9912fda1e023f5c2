import type { Exchange as RecordedExchange } from '@x/mcp-testing'
import { DEBUG_STATE } from '../timeline/events.ts'
import type { ExchangeKind } from '../timeline/events.ts'

/** An exchange as a proxy has recorded it so far. Session ids are in full. */
export type ObservedExchange = Pick<RecordedExchange, 'httpMethod'> &
  Partial<
    Pick<RecordedExchange, 'rpcMethod' | 'toolName' | 'sessionId' | 'assignedSessionId' | 'status'>
  > & {
    readonly request?: { readonly headers: Readonly<Record<string, string>> } | undefined
    readonly response?: { readonly body: string } | undefined
  }

/** Codes of JSON-RPC errors with which servers refuse a session or a protocol revision. */
const REFUSALS: readonly unknown[] = [-32_000, -32_001, -32_022, -32_600]

/** State of a process at one server, after its handshake or after it went on in a stored session. */
interface KnownProcess {
  /** Session of the last handshake, or the stored session that the process took up. */
  readonly sessionId?: string | undefined
  /** The server has refused that session, and no handshake has succeeded since. */
  readonly isLost?: boolean
  /** Kind of the last handshake: the notification that ends a handshake is of the same kind. */
  readonly handshake: ExchangeKind
}

/** Tells the kinds of exchanges. It remembers which process has which session at which server. */
export class Classifier {
  readonly #processes = new Map<string, KnownProcess>()
  /** Servers that have answered a handshake of any process. */
  readonly #servers = new Set<string>()
  /** Kinds at the start of exchanges. */
  readonly #started = new WeakMap<ObservedExchange, ExchangeKind>()

  /**
   * Kind of an exchange. Ask again with the same object when the exchange was answered, and when it has
   * ended: a refused call turns out to be the loss of a session. `from` names the process together with its
   * process id, because a new process knows nothing of its predecessor.
   */
  kindOf(from: string, to: string, exchange: ObservedExchange): ExchangeKind {
    if (to === DEBUG_STATE) return 'state'
    const key = JSON.stringify([from, to])
    const kind = this.#started.get(exchange) ?? this.#kindAtStart(key, to, exchange)
    this.#started.set(exchange, kind)

    const known = this.#processes.get(key)
    const { httpMethod, sessionId, assignedSessionId, status } = exchange
    if (status === undefined) return kind
    if (isHandshake(exchange)) {
      if (status >= 400) return kind
      this.#servers.add(to)
      // The end of this answer may come after the loss of the session that it has opened.
      if (assignedSessionId !== known?.sessionId || assignedSessionId === undefined) {
        this.#processes.set(key, { sessionId: assignedSessionId, handshake: kind })
      }
      return kind
    }
    if (httpMethod === 'DELETE' || !isRefusal(exchange)) return kind
    // A client that is not known finds out which revision the server speaks.
    if (known === undefined && sessionId === undefined) return 'handshake'
    // A late refusal of an earlier session does not lose the new one.
    if (known === undefined || sessionId === known.sessionId) {
      this.#processes.set(key, { handshake: 'handshake', ...known, sessionId, isLost: true })
    }
    return 'loss'
  }

  #kindAtStart(key: string, to: string, exchange: ObservedExchange): ExchangeKind {
    const { httpMethod, rpcMethod, sessionId } = exchange
    const known = this.#processes.get(key)
    if (isHandshake(exchange)) return known?.isLost ? 'recovery' : 'handshake'
    if (rpcMethod === 'notifications/initialized') return known?.handshake ?? 'handshake'
    if (httpMethod === 'GET' || rpcMethod === LISTEN) return 'stream'
    if (rpcMethod === undefined) return 'other'
    const isStored = sessionId !== undefined || this.#servers.has(to)
    if (known === undefined && isStored) {
      this.#processes.set(key, { sessionId, handshake: 'handshake' })
      return 'resume'
    }
    return rpcMethod === 'tools/call' ? 'call' : 'other'
  }
}

const LISTEN = 'subscriptions/listen'
const STATE_LABELS: Readonly<Record<string, string>> = {
  GET: 'load',
  PUT: 'store',
  DELETE: 'clear',
}

/** Label of an exchange: its tool, its method, or the purpose of a request without either. */
export function labelOf(to: string, exchange: ObservedExchange): string {
  const { httpMethod, rpcMethod, toolName, request } = exchange
  if (to === DEBUG_STATE) return STATE_LABELS[httpMethod] ?? httpMethod
  if (httpMethod === 'DELETE') return 'end of the session'
  if (httpMethod === 'GET' || rpcMethod === LISTEN) {
    // A client sends the id of the last event that it has got of a stream, and gets the rest.
    return request?.headers['last-event-id'] === undefined ? 'listening stream' : 'resumed stream'
  }
  if (httpMethod !== 'POST') return httpMethod
  return toolName ?? rpcMethod?.replace('notifications/', '') ?? 'answer'
}

function isHandshake({ rpcMethod }: ObservedExchange): boolean {
  return rpcMethod === 'initialize' || rpcMethod === 'server/discover'
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
