import { Listeners } from '@x/internal'
import type { Happening, TimelineEvent } from '../timeline/events.ts'
import { EMPTY_STATE, reduce } from '../timeline/state.ts'
import type { Notice, PlaygroundState } from '../timeline/state.ts'

/** State of the playground, which changes by events only. */
export class EventLog {
  readonly #listeners = new Listeners<TimelineEvent>(() => {})
  #state = EMPTY_STATE

  get state(): PlaygroundState {
    return this.#state
  }

  append(happening: Happening): void {
    const event = { ...happening, at: Date.now() }
    this.#state = reduce(this.#state, event)
    this.#listeners.emit(event)
  }

  /** Tells the person what a command did, or why it failed. */
  notify(level: Notice['level'], text: string): void {
    this.append({ type: 'notice', level, text })
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
