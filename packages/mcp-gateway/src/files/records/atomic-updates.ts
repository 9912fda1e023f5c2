import { GatewayError } from '../../errors.ts'
import type { Values } from '../../store/gateway-store.ts'

/** Other processes may be faster so often. */
const MAX_TRIES = 100

/** What becomes of a value: another one, none, or what it was. */
export type Change<Result> =
  | { readonly put: unknown; readonly result: Result }
  | { readonly remove: true; readonly result: Result }
  | { readonly result: Result }

/**
 * Reads, decides and writes as if it were one step. What this process does to one key comes one after the
 * other, so that it does not compete with itself.
 */
export class AtomicUpdates {
  readonly #values: Values
  readonly #last = new Map<string, Promise<unknown>>()

  constructor(values: Values) {
    this.#values = values
  }

  /** @throws what `decide` throws, and then nothing is written; GatewayError `UNAVAILABLE` */
  update<Result>(key: string, decide: (value: unknown) => Change<Result>): Promise<Result> {
    const before = this.#last.get(key)
    const work = (before ?? Promise.resolve()).then(() => this.#try(key, decide))
    const settled = work
      .catch(() => {})
      .finally(() => {
        if (this.#last.get(key) === settled) this.#last.delete(key)
      })
    this.#last.set(key, settled)
    return work
  }

  async #try<Result>(key: string, decide: (value: unknown) => Change<Result>): Promise<Result> {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const before = await this.#values.get(key)
      const change = decide(before?.value)
      if ('put' in change) {
        const version = await this.#values.put(key, change.put, {
          ifVersion: before?.version ?? null,
        })
        if (version !== undefined) return change.result
      } else if ('remove' in change && before) {
        if (await this.#values.delete(key, before.version)) return change.result
      } else {
        return change.result
      }
    }
    throw new GatewayError('UNAVAILABLE', 'Too many write the same at once: try again')
  }
}
