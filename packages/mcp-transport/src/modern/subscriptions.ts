import { isRecord } from '@x/internal'
import type { Exchange } from '../http/exchange.ts'
import { followStream } from '../http/follow-stream.ts'
import type { StreamEnd, StreamTrouble } from '../http/follow-stream.ts'
import type { HttpClient } from '../http/http-client.ts'
import { listChangesFor } from '../json-rpc.ts'
import type { JsonRpcMessage, RequestId, ListChanges } from '../json-rpc.ts'
import { closedError, TransportError, toTransportError } from '../transport-error.ts'
import type { TransportErrorCode } from '../transport-error.ts'
import type { Reconnect } from '../transport-options.ts'
import { modernPost, withIdentity, modernHeaders } from './modern-post.ts'
import type { PostOutcome, ClientIdentity } from './modern-post.ts'

export type SubscriptionsOptions = Omit<ListenerOptions, 'filter' | 'identity' | 'isAfterGap'> & {
  readonly identity: () => ListenerOptions['identity']
  /** List changes that the server advertises. */
  readonly changes: SubscriptionFilter
}

/**
 * Subscriptions of the client. One stream holds all of them. When they change, a new stream is acknowledged
 * before the old one is closed, so that no change is missed.
 */
export class Subscriptions {
  readonly #options: SubscriptionsOptions
  readonly #uris = new Set<string>()
  #current: Listener | undefined
  /** A stream without an acknowledgement. Replaces the current one after it. */
  #next: Listener | undefined
  #changing: Promise<unknown> = Promise.resolve()
  #isClosed = false

  constructor(options: SubscriptionsOptions) {
    this.#options = options
  }

  /** Listens for list changes, if the server advertises any. */
  open(): void {
    if (this.#current !== undefined || this.#isClosed || !this.#isAnyWanted()) return
    const first = this.#listen(this.#uris)
    this.#current = first
    first.acknowledged.catch((error: unknown) => {
      // Reports that the server was never reached. A server need not offer a stream.
      const isReached = !TransportError.is(error) || error.code !== 'UNREACHABLE'
      if (!isReached && !this.#isClosed) this.#options.report(error)
    })
  }

  /**
   * Returns false if the server does not announce changes of this resource.
   *
   * @throws TransportError if the server could not be asked, the subscriptions were closed, or `signal`
   * aborted.
   */
  subscribe(uri: string, signal: AbortSignal): Promise<boolean> {
    return this.#inOrder(async () => {
      if (this.#uris.has(uri)) return true
      const wanted = new Set(this.#uris).add(uri)
      const isEnough = ({ resourceSubscriptions = [] }: SubscriptionFilter): boolean =>
        resourceSubscriptions.includes(uri)
      const honoured = await this.#replace(wanted, isEnough, signal)
      if (honoured) this.#uris.add(uri)
      return honoured
    })
  }

  /** Never fails. If no new stream can be opened, the old one stays, with more notifications than needed. */
  unsubscribe(uri: string): Promise<void> {
    return this.#inOrder(async () => {
      if (!this.#uris.delete(uri)) return
      if (this.#isAnyWanted()) {
        await this.#replace(this.#uris, () => true).catch(() => {})
      } else {
        this.#current?.close()
        this.#current = undefined
      }
    })
  }

  /** Call it when the server has answered a request. */
  wake(): void {
    this.#current?.wake()
  }

  close(): void {
    this.#isClosed = true
    this.#current?.close()
    this.#next?.close()
  }

  #isAnyWanted(): boolean {
    return this.#uris.size > 0 || Object.keys(this.#options.changes).length > 0
  }

  /** Opens a stream for these resources, and closes the previous one if the server accepts the filter. */
  async #replace(
    uris: ReadonlySet<string>,
    isEnough: (honoured: SubscriptionFilter) => boolean,
    signal?: AbortSignal,
  ): Promise<boolean> {
    if (this.#isClosed || signal?.aborted === true) {
      const url = this.#options.http.url.display
      throw closedError('Nothing was sent: the subscription was cancelled', url)
    }
    const next = this.#listen(uris)
    this.#next = next
    const giveUp = (): void => next.close()
    signal?.addEventListener('abort', giveUp, { once: true })
    try {
      if (isEnough(await next.acknowledged)) {
        this.#current?.close()
        this.#current = next
        return true
      }
      next.close()
      return false
    } catch (error) {
      next.close()
      throw error
    } finally {
      signal?.removeEventListener('abort', giveUp)
      this.#next = undefined
    }
  }

  #listen(uris: ReadonlySet<string>): Listener {
    const { changes, identity, ...options } = this.#options
    const filter = { ...changes, ...(uris.size === 0 ? {} : { resourceSubscriptions: [...uris] }) }
    const isAfterGap = this.#current?.isBroken
    return new Listener({ ...options, identity: identity(), filter, isAfterGap })
  }

  #inOrder<T>(change: () => Promise<T>): Promise<T> {
    const done = this.#changing.then(change)
    this.#changing = done.catch(() => {})
    return done
  }
}

/** Changes that a client subscribes to (2026-07-28, basic/patterns/subscriptions). */
export interface SubscriptionFilter extends ListChanges {
  readonly resourceSubscriptions?: readonly string[] | undefined
}

export interface ListenerOptions {
  readonly http: HttpClient
  readonly identity: ClientIdentity
  readonly filter: SubscriptionFilter
  readonly reconnect: Reconnect
  /** Time limit without data on the stream, in milliseconds. */
  readonly idleMs: number
  /** 0 … 1 */
  readonly random: () => number
  readonly nextId: () => RequestId
  readonly deliver: (message: JsonRpcMessage) => void
  /** Changes may have been missed before this stream. @default false */
  readonly isAfterGap?: boolean | undefined
  /** Called once in each outage of an accepted stream. */
  readonly report: (error: TransportError) => void
}

const ACK_MS = 30_000
/**
 * A stream that was open for this long counts as progress, even without messages: proxies close quiet streams.
 */
const LIVED_MS = 10_000

/** A repetition would fail in the same way. */
const FINAL: ReadonlySet<TransportErrorCode> = new Set(['UNAUTHORIZED', 'CLOSED', 'CONFIG'])

/**
 * One `subscriptions/listen` stream. Reopened until it is closed. A server that never acknowledged it may
 * refuse it.
 */
export class Listener {
  /** The accepted filter. Rejects if the server does not accept the stream. */
  readonly acknowledged: Promise<SubscriptionFilter>
  readonly #options: ListenerOptions
  readonly #closing = new AbortController()
  #settle: { resolve(filter: SubscriptionFilter): void; reject(error: TransportError): void }
  #isAcknowledged = false
  #isBroken = false
  /** Ends a long wait early. */
  #wake: (() => void) | undefined

  constructor(options: ListenerOptions) {
    this.#options = options
    this.#settle = { resolve: () => {}, reject: () => {} }
    this.acknowledged = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    this.acknowledged.catch(() => {}) // handling it is optional
    this.#follow().catch((error: unknown) => this.#giveUp(toTransportError(error)))
  }

  /** True while the stream is not open. Changes may be missed meanwhile. */
  get isBroken(): boolean {
    return this.#isBroken
  }

  /** Call it when the server has answered a request: a stream that waits is then reopened soon. */
  wake(): void {
    this.#wake?.()
  }

  close(): void {
    const reason = closed(this.#options.http.url.display)
    this.#settle.reject(reason)
    this.#closing.abort(reason)
  }

  async #follow(): Promise<void> {
    const { reconnect, random } = this.#options
    const { signal } = this.#closing
    const outcome = await followStream({
      open: (attempt) => this.#open(attempt),
      cursor: {}, // streams cannot be resumed; a synthetic change stands for missed changes
      reconnect,
      signal,
      isBroken: false,
      slowly: {
        onTrouble: (trouble) => this.#reportTrouble(trouble),
        onWaiting: (wake) => {
          this.#wake = wake
        },
      },
      random,
    })
    if (outcome.kind !== 'stopped' && !signal.aborted) this.#reportTrouble(outcome)
  }

  #reportTrouble(trouble: StreamTrouble): void {
    const url = this.#options.http.url.display
    if (trouble.kind === 'refused') return this.#giveUp(trouble.error)
    const { attempts, error: cause } = trouble
    const message = `The subscription to ${url} broke, and ${attempts} attempts to open it again failed. Changes may be missed until it is open again`
    this.#giveUp(new TransportError('UNREACHABLE', message, { url, cause }))
  }

  /** Servers need not offer a stream. The loss of an accepted one is reported once per outage. */
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
    // The response head is not enough: the server must acknowledge the filter.
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
    this.#isBroken = true
    clearTimeout(unacknowledged)
    signal.removeEventListener('abort', stop)
    exchange?.abort(closed(url)) // it may still be open after its answer
    progressed ||= this.#isAcknowledged && performance.now() - startedAt >= LIVED_MS
    return outcome.kind === 'answered' && 'result' in outcome.answer
      ? { kind: 'ended', progressed, wasOpen: this.#isAcknowledged }
      : toStreamEnd(outcome, { progressed, wasOpen: this.#isAcknowledged, url })
  }

  /**
   * An acknowledgement does not count as progress: otherwise a server that acknowledges and drops the stream is asked
   * without end.
   */
  #received(message: JsonRpcMessage, attempt: number): 'acknowledged' | 'other' {
    if (!('method' in message) || this.#closing.signal.aborted) return 'other'
    if (message.method !== 'notifications/subscriptions/acknowledged') {
      if (!('id' in message)) this.#options.deliver(message)
      return 'other'
    }
    const honoured = parseFilter(message.params?.['notifications'])
    this.#isAcknowledged = true
    this.#isBroken = false
    this.#settle.resolve(honoured)
    if (attempt > 0 || this.#options.isAfterGap === true) this.#announceMissedChanges(honoured)
    return 'acknowledged'
  }

  /** One notification of each kind stands for all changes that were missed without a stream. */
  #announceMissedChanges(honoured: SubscriptionFilter): void {
    const { deliver } = this.#options
    for (const change of listChangesFor(honoured)) deliver(change)
    for (const uri of honoured.resourceSubscriptions ?? []) {
      deliver({ jsonrpc: '2.0', method: 'notifications/resources/updated', params: { uri } })
    }
  }
}

/** Temporary failures are retried; others are a refusal. */
function toStreamEnd(
  outcome: PostOutcome,
  { progressed, wasOpen, url }: { progressed: boolean; wasOpen: boolean; url: string },
): StreamEnd {
  const { status, error } = reasonOf(outcome, url)
  if (FINAL.has(error.code)) return { kind: 'refused', error }
  const isPassing = status === 408 || status === 425 || status === 429 || status >= 500
  const isRefusal = error.code === 'REJECTED' && !isPassing
  return isRefusal ? { kind: 'refused', error } : { kind: 'ended', progressed, wasOpen, error }
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

function parseFilter(value: unknown): SubscriptionFilter {
  if (!isRecord(value)) return {}
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
  return closedError('The subscription was closed', url)
}
