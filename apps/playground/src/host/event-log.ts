import { Listeners } from '@x/internal'
import type { Happening, TimelineEvent } from '../timeline/events.ts'
import { EMPTY_STATE, reduce } from '../timeline/state.ts'
import type { PlaygroundState } from '../timeline/state.ts'

/** Events that a page may have missed while it was disconnected. Beyond that it gets the whole state. */
const KEPT_EVENTS = 5000

/** The newest events in order, and the state after the last of them. */
export class EventLog {
  readonly #listeners = new Listeners<TimelineEvent>(() => {})
  readonly #events: TimelineEvent[] = []
  #state = EMPTY_STATE

  get state(): PlaygroundState {
    return this.#state
  }

  append(happening: Happening): void {
    const event = { ...happening, id: this.#state.lastEventId + 1, at: Date.now() }
    this.#state = reduce(this.#state, event)
    this.#events.push(event)
    if (this.#events.length > KEPT_EVENTS) this.#events.shift()
    this.#listeners.emit(event)
  }

  /** Returns the events after one, or undefined if some of them are not kept any more. */
  after(id: number): readonly TimelineEvent[] | undefined {
    const first = this.#events[0]?.id ?? 1
    if (id < first - 1 || id > this.#state.lastEventId) return undefined
    return this.#events.slice(id - first + 1)
  }

  /** Calls `listener` with each later event. Returns a function that removes it. */
  on(listener: (event: TimelineEvent) => void): () => void {
    return this.#listeners.add(listener)
  }

  /** Resolves when a condition is true. */
  until(isTrue: (state: PlaygroundState) => boolean): Promise<void> {
    if (isTrue(this.#state)) return Promise.resolve()
    return new Promise((resolve) => {
      const off = this.on(() => {
        if (!isTrue(this.#state)) return
        off()
        resolve()
      })
    })
  }
}
