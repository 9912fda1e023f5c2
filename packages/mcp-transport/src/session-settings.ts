import { BoundedMap } from '@x/internal'
import type { Answer, InputRequest } from './json-rpc.ts'
import { TransportError } from './transport-error.ts'
import type { OpeningError } from './transport-error.ts'

type Outcome = Answer | TransportError

/** URIs of subscriptions that have ended. Older ones are forgotten. */
const MAX_ENDS = 1000

/**
 * The log level and the subscriptions of a client. A server keeps them in the session, so a session that replaces
 * another one gets them again, after its handshake and before the calls that wait for it.
 *
 * @internal
 */
export class SessionSettings {
  /** The requests that have succeeded, by URI. The log level is stored under its method. */
  readonly #requests = new Map<string, InputRequest>()
  /** How often the client has asked to end a subscription, by URI. Answers may come in another order than requests. */
  readonly #ends = new BoundedMap<string, number>(MAX_ENDS)

  /** Records a request of the client if it changes a setting. Returns the callback for its outcome. */
  watch(request: InputRequest, onSettled: (outcome: Outcome) => void): typeof onSettled {
    const { method, params } = request
    const isEnd = method === 'resources/unsubscribe'
    const isSubscription = isEnd || method === 'resources/subscribe'
    if (!isSubscription && method !== 'logging/setLevel') return onSettled
    const key = isSubscription ? params?.['uri'] : method
    if (typeof key !== 'string') return onSettled
    const ends = this.#ends.get(key) ?? 0
    if (isEnd) {
      this.#ends.set(key, ends + 1)
      this.#requests.delete(key)
      return onSettled
    }
    return (outcome) => {
      const isWanted = (this.#ends.get(key) ?? 0) === ends
      if (isWanted && 'result' in outcome) this.#requests.set(key, request)
      onSettled(outcome)
    }
  }

  /**
   * Sends the requests in another session, and waits for their outcomes. Returns why a setting is not restored. The loss
   * of that session comes before other failures.
   */
  async restore(
    send: (request: InputRequest) => Promise<Outcome>,
  ): Promise<TransportError | undefined> {
    const outcomes = await Promise.all(Array.from(this.#requests.values(), send))
    const failures = outcomes.flatMap((outcome): OpeningError[] => {
      if (TransportError.is(outcome)) return [outcome]
      return 'error' in outcome ? [outcome.error] : []
    })
    const failure = failures.find((one) => one.code === 'SESSION_LOST') ?? failures[0]
    if (failure === undefined) return undefined
    const message = `The log level or a subscription is not restored in the new session: ${failure.message}`
    return TransportError.is(failure)
      ? failure.with({ message })
      : new TransportError('REJECTED', message, { serverError: failure })
  }
}
