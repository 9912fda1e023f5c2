import { isRecord } from '@x/internal'
import { followStream, isTemporary, toTroubleError } from '../http/follow-stream.ts'
import type { StreamEnd, StreamTrouble } from '../http/follow-stream.ts'
import type { RpcListener } from '../http/rpc-exchange.ts'
import { advertisedChanges, listChangesFor } from '../json-rpc.ts'
import type { JsonRpcNotification, JsonRpcRequest, ListChanges } from '../json-rpc.ts'
import { toTransportError, TransportError } from '../transport-error.ts'
import type { TransportErrorCode } from '../transport-error.ts'
import type { PostOutcome } from './modern-post.ts'
import type { ModernServer } from './modern-server.ts'

/** Changes that a client subscribes to: lists and resources (2026-07-28, basic/patterns/subscriptions). */
type SubscriptionFilter = Readonly<Record<string, unknown>>

/**
 * Subscriptions of the client. One stream holds all of them. When they change, a new stream is acknowledged
 * before the old one is closed, so that no change is missed.
 */
export class Subscriptions {
  readonly #server: ModernServer
  readonly #changes: ListChanges
  readonly #uris = new Set<string>()
  #current: Listener | undefined
  #changing: Promise<unknown> = Promise.resolve()
  readonly #closing = new AbortController()

  constructor(server: ModernServer) {
    this.#server = server
    this.#changes = advertisedChanges(server.known.discovered.capabilities)
  }

  /** Listens for list changes, if the server advertises any. */
  open(): void {
    const { signal } = this.#closing
    if (this.#current !== undefined || signal.aborted || !this.#isAnyWanted(this.#uris)) return
    this.#current = this.#listen(this.#uris)
    this.#current.acknowledged.catch((error: unknown) => {
      // Reports that the server was never reached. A server need not offer a stream.
      const isReached = !TransportError.is(error) || error.code !== 'UNREACHABLE'
      if (!isReached && !signal.aborted) this.#server.parts.report(error)
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
      const isHonoured = await this.#replace(wanted, uri, signal)
      if (isHonoured) this.#uris.add(uri)
      return isHonoured
    })
  }

  /** Never fails. If no new stream can be opened, the old one stays, with more notifications than needed. */
  unsubscribe(uri: string): Promise<void> {
    return this.#inOrder(async () => {
      if (!this.#uris.delete(uri)) return
      if (this.#isAnyWanted(this.#uris)) {
        await this.#replace(this.#uris, undefined, this.#closing.signal).catch(() => {})
      } else {
        this.#current?.close()
        this.#current = undefined
      }
    })
  }

  answered(): void {
    this.#current?.onAnswer?.()
  }

  close(): void {
    this.#closing.abort()
    this.#current?.close()
  }

  #isAnyWanted(uris: ReadonlySet<string>): boolean {
    return uris.size > 0 || Object.keys(this.#changes).length > 0
  }

  /**
   * Opens a stream for these resources. Closes the previous one if the server accepts it, with `required` if
   * that is given.
   */
  async #replace(
    uris: ReadonlySet<string>,
    required: string | undefined,
    signal: AbortSignal,
  ): Promise<boolean> {
    const ends = AbortSignal.any([signal, this.#closing.signal])
    if (ends.aborted) {
      throw this.#server.parts.http.closed('Nothing was sent: the subscription was cancelled')
    }
    const next = this.#listen(uris)
    const giveUp = (): void => next.close()
    ends.addEventListener('abort', giveUp, { once: true })
    try {
      const honoured = resourcesOf(await next.acknowledged)
      if (required !== undefined && !honoured.includes(required)) {
        next.close()
        return false
      }
      this.#current?.close()
      this.#current = next
      return true
    } catch (error) {
      next.close()
      throw error
    } finally {
      ends.removeEventListener('abort', giveUp)
    }
  }

  #listen(uris: ReadonlySet<string>): Listener {
    const resources = uris.size === 0 ? {} : { resourceSubscriptions: [...uris] }
    const filter = { ...this.#changes, ...resources }
    const isAfterGap = this.#current?.isBroken === true
    return new Listener(this.#server, { filter, isAfterGap })
  }

  #inOrder<T>(change: () => Promise<T>): Promise<T> {
    const done = this.#changing.then(change)
    this.#changing = done.catch(() => {})
    return done
  }
}

const ACK_MS = 30_000

/** A repetition would fail in the same way. */
const FINAL: ReadonlySet<TransportErrorCode> = new Set(['UNAUTHORIZED', 'CLOSED', 'CONFIG'])

/** `isAfterGap`: changes may have been missed before this stream. */
type Listening = Readonly<{ filter: SubscriptionFilter; isAfterGap: boolean }>

/**
 * One `subscriptions/listen` stream. Reopened until it is closed. A server that never acknowledged it may
 * refuse it.
 */
class Listener {
  /** The accepted filter. Rejects if the server does not accept the stream. */
  readonly acknowledged: Promise<SubscriptionFilter>
  /** Called when the server has answered another request. Set while the stream waits for that. */
  onAnswer: (() => void) | undefined
  /** True after the stream has ended, until it is open again. Changes may be missed meanwhile. */
  isBroken = false
  readonly #server: ModernServer
  readonly #listening: Listening
  readonly #closing = new AbortController()
  readonly #acknowledging = Promise.withResolvers<SubscriptionFilter>()
  #isAcknowledged = false

  constructor(server: ModernServer, listening: Listening) {
    this.#server = server
    this.#listening = listening
    this.acknowledged = this.#acknowledging.promise
    this.acknowledged.catch(() => {}) // handling it is optional
    this.#follow().catch((error: unknown) => this.#giveUp(toTransportError(error)))
  }

  close(): void {
    const reason = this.#server.parts.http.closed('The subscription was closed')
    this.#acknowledging.reject(reason)
    this.#closing.abort(reason)
  }

  async #follow(): Promise<void> {
    const { signal } = this.#closing
    const outcome = await followStream({
      open: (attempt) => this.#open(attempt),
      cursor: {}, // streams cannot be resumed; a synthetic change stands for missed changes
      reconnect: this.#server.parts.reconnect,
      signal,
      isBroken: false,
      endless: {
        onTrouble: (trouble) => this.#reportTrouble(trouble),
        nextAnswer: () =>
          new Promise((resolve) => {
            this.onAnswer = resolve
          }),
      },
    })
    if (outcome.kind !== 'stopped' && !signal.aborted) this.#reportTrouble(outcome)
  }

  #reportTrouble(trouble: StreamTrouble): void {
    const { display: url } = this.#server.parts.http.url
    this.#giveUp(toTroubleError(trouble, `The subscription to ${url}`, url))
  }

  /** Servers need not offer a stream. The loss of an accepted one is reported once per outage. */
  #giveUp(error: TransportError): void {
    this.#acknowledging.reject(error)
    if (this.#isAcknowledged) this.#server.parts.report(error)
  }

  async #open(attempt: number): Promise<StreamEnd> {
    const { http } = this.#server.parts
    const url = http.url.display
    let progressed = false
    // The response head is not enough: the server must acknowledge the filter.
    const unacknowledged = new AbortController()
    const timer = setTimeout(() => {
      const message = `${url} did not acknowledge a subscription in ${ACK_MS} ms`
      unacknowledged.abort(http.error('TIMEOUT', message))
    }, ACK_MS).unref()
    const params = { notifications: this.#listening.filter }
    const listener: RpcListener = {
      message: (message) => {
        if (this.#received(message, attempt) === 'acknowledged') clearTimeout(timer)
        else progressed = true
      },
    }
    const outcome = await this.#server.ask('subscriptions/listen', params, {
      signal: AbortSignal.any([this.#closing.signal, unacknowledged.signal]),
      isOfCaller: false,
      headersMs: ACK_MS,
      idleMs: this.#server.parts.timeouts.idleMs,
      listener,
    })
    this.isBroken = true
    clearTimeout(timer)
    const error = toFailure(outcome, url)
    return error !== undefined && isRefusal(error)
      ? { kind: 'refused', error }
      : { kind: 'ended', progressed, wasOpen: this.#isAcknowledged, error }
  }

  /**
   * An acknowledgement does not count as progress: otherwise a server that acknowledges and drops the stream is asked
   * without end.
   */
  #received(
    message: JsonRpcRequest | JsonRpcNotification,
    attempt: number,
  ): 'acknowledged' | 'other' {
    if (this.#closing.signal.aborted) return 'other'
    if (message.method !== 'notifications/subscriptions/acknowledged') {
      if (!('id' in message)) this.#deliver(message)
      return 'other'
    }
    const filter = message.params?.['notifications']
    const honoured = isRecord(filter) ? filter : {}
    this.#isAcknowledged = true
    this.isBroken = false
    this.#acknowledging.resolve(honoured)
    if (attempt > 0 || this.#listening.isAfterGap) this.#announceMissedChanges(honoured)
    return 'acknowledged'
  }

  /** One notification of each kind stands for all changes that were missed without a stream. */
  #announceMissedChanges(honoured: SubscriptionFilter): void {
    for (const change of listChangesFor(honoured)) this.#deliver(change)
    for (const uri of resourcesOf(honoured)) {
      this.#deliver({ jsonrpc: '2.0', method: 'notifications/resources/updated', params: { uri } })
    }
  }

  #deliver(notification: JsonRpcNotification): void {
    const { http, guard, onNotification } = this.#server.parts
    http.asOwner(() => guard(() => onNotification(notification)))
  }
}

/** Returns the error of a stream that did not end with an answer. */
function toFailure(outcome: PostOutcome, url: string): TransportError | undefined {
  if (outcome.kind !== 'answered') return outcome.error
  const { status, answer } = outcome
  if ('result' in answer) return undefined
  const message = `${url} refused a subscription: ${answer.error.message}`
  return new TransportError('REJECTED', message, { url, status, serverError: answer.error })
}

function isRefusal({ code, status = 500 }: TransportError): boolean {
  return FINAL.has(code) || (code === 'REJECTED' && !isTemporary(status))
}

function resourcesOf({ resourceSubscriptions: uris }: SubscriptionFilter): readonly unknown[] {
  return Array.isArray(uris) ? uris.filter((one) => typeof one === 'string') : []
}
