import { closedError } from '../closed-error.ts'
import type { Exchange } from '../http/exchange.ts'
import type { HttpClient } from '../http/http-client.ts'
import { isObject } from '../json-rpc.ts'
import type { JsonRpcMessage, RequestId } from '../json-rpc.ts'
import { followStream } from '../http/follow-stream.ts'
import type { StreamEnd } from '../http/follow-stream.ts'
import { TransportError, transportErrorFrom } from '../transport-error.ts'
import type { TransportErrorCode } from '../transport-error.ts'
import type { Reconnect } from '../transport-options.ts'
import { withIdentity } from './meta.ts'
import type { ClientIdentity } from './meta.ts'
import { modernHeaders } from './modern-headers.ts'
import { modernPost } from './modern-post.ts'
import type { PostOutcome } from './modern-post.ts'

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
  /** Told once, when a stream that was there is given up. */
  readonly report: (error: TransportError) => void
}

const ACK_MS = 30_000
/** A quiet stream that a proxy cuts now and then is worth keeping. */
const LIVED_MS = 10_000

const LIST_CHANGES = [
  ['toolsListChanged', 'notifications/tools/list_changed'],
  ['promptsListChanged', 'notifications/prompts/list_changed'],
  ['resourcesListChanged', 'notifications/resources/list_changed'],
] as const

/** Asking again would bring the same. */
const FINAL: ReadonlySet<TransportErrorCode> = new Set(['UNAUTHORIZED', 'CLOSED', 'CONFIG'])

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
    this.#follow().catch((error: unknown) => this.#giveUp(transportErrorFrom(error)))
  }

  close(): void {
    const reason = closed(this.#options.http.url.display)
    this.#settle.reject(reason)
    this.#closing.abort(reason)
  }

  async #follow(): Promise<void> {
    const { reconnect, random, http } = this.#options
    const outcome = await followStream({
      open: (attempt) => this.#open(attempt),
      cursor: {}, // nothing can be resumed here: what happened meanwhile is told by a synthetic change
      reconnect,
      signal: this.#closing.signal,
      isBroken: false,
      random,
    })
    if (outcome.kind === 'stopped' || this.#closing.signal.aborted) return
    const url = http.url.display
    const cause = outcome.error
    const error =
      outcome.kind === 'refused'
        ? outcome.error
        : new TransportError('UNREACHABLE', `The subscription to ${url} is given up`, {
            url,
            cause,
          })
    this.#giveUp(error)
  }

  /** Servers need not offer a stream. One that was there and is gone for good is worth a word, once. */
  #giveUp(error: TransportError): void {
    this.#settle.reject(error)
    if (this.#isAcknowledged) this.#options.report(error)
  }

  async #open(attempt: number): Promise<StreamEnd> {
    const { http, identity, filter, idleMs, nextId } = this.#options
    const url = http.url.display
    const request = {
      jsonrpc: '2.0',
      id: nextId(),
      method: 'subscriptions/listen',
      params: withIdentity({ notifications: filter }, identity),
    } as const
    const startedAt = performance.now()
    let progressed = false
    let exchange: Exchange | undefined
    const { signal } = this.#closing
    const stop = (): void => exchange?.abort(closed(url))
    signal.addEventListener('abort', stop, { once: true })
    // The head alone says nothing: silence is only allowed once it is known what will be told.
    const unacknowledged = setTimeout(() => {
      const message = `${url} did not acknowledge a subscription in ${ACK_MS} ms`
      exchange?.abort(new TransportError('TIMEOUT', message, { url }))
    }, ACK_MS).unref()
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
        if (this.#received(message, attempt) === 'acknowledged') clearTimeout(unacknowledged)
        else progressed = true
      },
    })
    clearTimeout(unacknowledged)
    signal.removeEventListener('abort', stop)
    exchange?.abort(closed(url)) // it may be open still, behind its answer
    progressed ||= this.#isAcknowledged && performance.now() - startedAt >= LIVED_MS
    return outcome.kind === 'answered' && 'result' in outcome.answer
      ? { kind: 'ended', progressed }
      : endOf(outcome, { progressed, url })
  }

  /** An acknowledgement is no progress: a server that gives it and drops us would be asked for ever. */
  #received(message: JsonRpcMessage, attempt: number): 'acknowledged' | 'other' {
    if (!('method' in message) || this.#closing.signal.aborted) return 'other'
    if (message.method !== 'notifications/subscriptions/acknowledged') {
      if (!('id' in message)) this.#options.deliver(message)
      return 'other'
    }
    const honoured = filterFrom(message.params?.['notifications'])
    this.#isAcknowledged = true
    this.#settle.resolve(honoured)
    if (attempt > 0) this.#tellOfTheGap(honoured)
    return 'acknowledged'
  }

  /** Changes while nobody listened are gone: one of each kind stands for all of them. */
  #tellOfTheGap(honoured: SubscriptionFilter): void {
    const { deliver } = this.#options
    for (const [wanted, method] of LIST_CHANGES) {
      if (honoured[wanted] === true) deliver({ jsonrpc: '2.0', method })
    }
    for (const uri of honoured.resourceSubscriptions ?? []) {
      deliver({ jsonrpc: '2.0', method: 'notifications/resources/updated', params: { uri } })
    }
  }
}

/** Trouble of the moment is worth another try; the rest is a no. */
function endOf(
  outcome: PostOutcome,
  { progressed, url }: { progressed: boolean; url: string },
): StreamEnd {
  const { status, error } = reasonOf(outcome, url)
  if (FINAL.has(error.code)) return { kind: 'refused', error }
  const isPassing = status === 408 || status === 425 || status === 429 || status >= 500
  const isRefusal = error.code === 'REJECTED' && !isPassing
  return isRefusal ? { kind: 'refused', error } : { kind: 'ended', progressed, error }
}

function reasonOf(outcome: PostOutcome, url: string): { status: number; error: TransportError } {
  if (outcome.kind === 'failed') {
    return { status: outcome.error.status ?? 500, error: outcome.error }
  }
  const { status, answer } = outcome
  const serverError = 'error' in answer ? answer.error : undefined
  const message = `${url} refused a subscription: ${serverError?.message ?? 'no reason given'}`
  return { status, error: new TransportError('REJECTED', message, { url, status, serverError }) }
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
  return closedError('The subscription was closed by this side', url)
}
