import type { GraphPlace } from './graph-place.ts'
import type { LiveCall } from './live-call.ts'

/** More threads than this wait for people in one process only by accident. */
const MAX_HELD = 1000

/** Calls that wait for a person while no run goes on: only the process that made them can continue them. */
export class HeldCalls<T> {
  readonly #calls = new Map<string, LiveCall<T>>()

  hold(place: GraphPlace, call: LiveCall<T>): void {
    this.#calls.set(keyOf(place), call)
    const [oldest] = this.#calls.keys()
    if (this.#calls.size <= MAX_HELD || oldest === undefined) return
    this.#calls.get(oldest)?.abort(new Error('Too many calls wait for people'))
    this.#calls.delete(oldest)
  }

  /** Whoever takes it answers it: a second one, from a stale click, finds nothing. */
  take(place: GraphPlace): LiveCall<T> | undefined {
    const key = keyOf(place)
    const call = this.#calls.get(key)
    this.#calls.delete(key)
    return call
  }
}

function keyOf({ thread, task, toolCallId }: GraphPlace): string {
  return JSON.stringify([thread, task, toolCallId])
}
