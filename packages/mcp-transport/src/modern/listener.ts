import type { Exchange } from '../http/exchange.ts'
import type { HttpClient } from '../http/http-client.ts'
import { isObject } from '../json-rpc.ts'
import type { JsonRpcMessage, RequestId } from '../json-rpc.ts'
import { followStream } from '../http/follow-stream.ts'
import type { StreamEnd } from '../http/follow-stream.ts'
import { TransportError } from '../transport-error.ts'
import type { Reconnect } from '../transport-options.ts'
import { withIdentity } from './meta.ts'
import type { ClientIdentity } from './meta.ts'
import { modernHeaders } from './modern-headers.ts'
import { modernPost } from './modern-post.ts'

/** What a client wants to be told of (2026-07-28, basic/patterns/subscriptions). */
export interface SubscriptionFilter {
  readonly toolsListChanged?: true | undefined
  readonly promptsListChanged?: true | undefined
  readonly resourcesListChanged?: true | undefined
  readonly resourceSubscriptions?: readonly string[] | undefined
}

export interface ListenerOptions {
  readonly http: HttpClient
  readonly identity: ClientIdentity
  readonly filter: SubscriptionFilter
  readonly reconnect: Reconnect
  /** Limit for silence on the stream, in milliseconds. */
  readonly idleMs: number
  /** 0 … 1 */
  readonly random: () => number
  readonly nextId: () => RequestId
  readonly deliver: (message: JsonRpcMessage) => void
  /** Told once, when the stream is given up. */
  readonly report: (error: TransportError) => void
}

const ACK_MS = 30_000

const LIST_CHANGES = [
  ['toolsListChanged', 'notifications/tools/list_changed'],
  ['promptsListChanged', 'notifications/prompts/list_changed'],
  ['resourcesListChanged', 'notifications/resources/list_changed'],
] as const

/** One `subscriptions/listen` stream, opened again when it drops, until it is closed or refused. */
export class Listener {
  /** What the server agreed to tell. Rejects with why it did not. */
  readonly acknowledged: Promise<SubscriptionFilter>
  readonly #options: ListenerOptions
  readonly #closing = new AbortController()
  #settle: { resolve(filter: SubscriptionFilter): void; reject(error: TransportError): void }
  #isAcknowledged = false

  constructor(options: ListenerOptions) {
    this.#options = options
    this.#settle = { resolve: () => {}, reject: () => {} }
    this.acknowledged = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    this.acknowledged.catch(() => {}) // nobody has to ask
    void this.#follow()
  }

  close(): void {
    const reason = closed(this.#options.http.url.display)
    this.#settle.reject(reason)
    this.#closing.abort(reason)
  }

  async #follow(): Promise<void> {
    const { reconnect, random, report, http } = this.#options
    const outcome = await followStream({
      open: (attempt) => this.#open(attempt),
      cursor: {}, // nothing can be resumed here: what happened meanwhile is told by a synthetic change
      reconnect,
      signal: this.#closing.signal,
      isBroken: false,
      random,
    })
    if (outcome.kind === 'stopped') return
    const error =
      outcome.error ??
      new TransportError('UNREACHABLE', `The subscription to ${http.url.display} is given up`, {
        url: http.url.display,
      })
    this.#settle.reject(error)
    if (outcome.kind === 'exhausted' && this.#isAcknowledged) report(error)
  }

  async #open(attempt: number): Promise<StreamEnd> {
    const { http, identity, filter, idleMs, nextId } = this.#options
    const request = {
      jsonrpc: '2.0',
      id: nextId(),
      method: 'subscriptions/listen',
      params: withIdentity({ notifications: filter }, identity),
    } as const
    let progressed = false
    let exchange: Exchange | undefined
    const { signal } = this.#closing
    const stop = (): void => exchange?.abort(closed(http.url.display))
    signal.addEventListener('abort', stop, { once: true })
    const outcome = await modernPost({
      http,
      request,
      headers: modernHeaders(request, identity.protocolVersion),
      headersMs: ACK_MS,
      idleMs,
      onExchange: (started) => {
        exchange = started
        return !signal.aborted
      },
      onMessage: (message) => {
        progressed = true
        this.#received(message, attempt)
      },
    })
    signal.removeEventListener('abort', stop)
    if (outcome.kind === 'failed') {
      const isRefusal = outcome.error.code === 'REJECTED' && (outcome.error.status ?? 500) < 500
      return isRefusal || outcome.error.code === 'UNAUTHORIZED'
        ? { kind: 'refused', error: outcome.error }
        : { kind: 'ended', progressed, error: outcome.error }
    }
    if ('result' in outcome.answer) return { kind: 'ended', progressed }
    const { code, message } = outcome.answer.error
    const error = new TransportError(
      'REJECTED',
      `${http.url.display} refused a subscription: ${message}`,
      {
        url: http.url.display,
        status: outcome.status,
        serverError: { code, message },
      },
    )
    return { kind: 'refused', error }
  }

  #received(message: JsonRpcMessage, attempt: number): void {
    if (!('method' in message) || this.#closing.signal.aborted) return
    if (message.method !== 'notifications/subscriptions/acknowledged') {
      if (!('id' in message)) this.#options.deliver(message)
      return
    }
    const honoured = filterFrom(message.params?.['notifications'])
    this.#isAcknowledged = true
    this.#settle.resolve(honoured)
    if (attempt > 0) this.#tellOfTheGap(honoured)
  }

  /** Changes while nobody listened are gone: one of each kind stands for all of them. */
  #tellOfTheGap(honoured: SubscriptionFilter): void {
    for (const [wanted, method] of LIST_CHANGES) {
      if (honoured[wanted] === true) this.#options.deliver({ jsonrpc: '2.0', method })
    }
  }
}

/** Which list changes a server advertises. */
export function advertisedChanges(
  capabilities: Readonly<Record<string, unknown>>,
): SubscriptionFilter {
  return {
    ...(changes(capabilities['tools']) ? { toolsListChanged: true } : {}),
    ...(changes(capabilities['prompts']) ? { promptsListChanged: true } : {}),
    ...(changes(capabilities['resources']) ? { resourcesListChanged: true } : {}),
  }
}

function changes(capability: unknown): boolean {
  return isObject(capability) && capability['listChanged'] === true
}

function filterFrom(value: unknown): SubscriptionFilter {
  if (!isObject(value)) return {}
  const uris = value['resourceSubscriptions']
  return {
    ...(value['toolsListChanged'] === true ? { toolsListChanged: true } : {}),
    ...(value['promptsListChanged'] === true ? { promptsListChanged: true } : {}),
    ...(value['resourcesListChanged'] === true ? { resourcesListChanged: true } : {}),
    ...(Array.isArray(uris)
      ? { resourceSubscriptions: uris.filter((uri) => typeof uri === 'string') }
      : {}),
  }
}

function closed(url: string): TransportError {
  return new TransportError('CLOSED', 'The subscription was closed by this side', { url })
}
