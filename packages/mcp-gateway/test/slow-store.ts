import { GatewayError } from '../src/errors.ts'
import type { SessionStore } from '../src/mcp/sessions.ts'
import type { EventLogs } from '../src/store/gateway-store.ts'
import { turns } from './turns.ts'

/** A store that executes one operation after the other, each after some turns of the event loop. */
export class SlowStore {
  /** Maximum number of turns for an operation. */
  slowness = 0
  /** Probability, from 0 to 1, that an event cannot be stored. */
  failing = 0
  /** Names of the session logs that were opened, and not deleted. */
  readonly streams: Set<string> = new Set()
  readonly #random: () => number
  #last: Promise<unknown> = Promise.resolve()

  constructor(random: () => number) {
    this.#random = random
  }

  /** Wraps the store of sessions. Operations of session logs fail with probability `failing`. */
  wrapSessions(store: SessionStore): SessionStore {
    return { ...store, records: this.#slow(store.records), logs: this.#slowLogs(store.logs) }
  }

  #slowLogs(logs: EventLogs): EventLogs {
    const fail = (log: string): void => {
      if (!log.startsWith('session-events:') || this.#random() >= this.failing) return
      throw new GatewayError('UNAVAILABLE', 'The store is away')
    }
    return {
      open: (log, ...rest) =>
        this.#do(async () => {
          fail(log)
          this.streams.add(log)
          return logs.open(log, ...rest)
        }),
      append: (log, ...rest) =>
        this.#do(async () => {
          fail(log)
          return logs.append(log, ...rest)
        }),
      find: (eventId) => this.#do(() => logs.find(eventId)),
      read: (...place) => this.#do(() => logs.read(...place)),
      tail: (...tail) => this.#do(() => logs.tail(...tail)),
      delete: (log) =>
        this.#do(() => {
          this.streams.delete(log)
          return logs.delete(log)
        }),
    }
  }

  #slow<Part extends object>(part: Part): Part {
    return new Proxy(part, {
      get: (target, name) => {
        const method: unknown = Reflect.get(target, name)
        if (typeof method !== 'function') return method
        return (...args: unknown[]): Promise<unknown> =>
          this.#do(async () => Reflect.apply(method, target, args) as unknown)
      },
    })
  }

  #do<Result>(work: () => Promise<Result>): Promise<Result> {
    const before = this.#last
    const doing = (async () => {
      await before
      await turns(this.#random, this.slowness)
      return work()
    })()
    this.#last = doing.catch(() => undefined)
    return doing
  }
}
