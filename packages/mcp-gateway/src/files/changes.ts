import type { Clock } from '../internal/clock.ts'
import { Debouncer } from '../internal/debouncer.ts'
import type { ArtifactChange } from './artifacts.ts'

/** Changes of a short time. */
export interface News {
  /** Ids of lists that have one more or one less entry. */
  readonly lists: ReadonlySet<string>
  /** URIs with new versions, each with the id of its list. */
  readonly updated: ReadonlyMap<string, string>
}

/** A run may write a hundred files at once. */
const QUIET_MS = 50
const MAX_MS = 500

/** Collects changes of artifacts, and reports many of them at once. */
export class ArtifactNews {
  readonly #onNews: (news: News) => void
  readonly #debouncer: Debouncer
  #lists = new Set<string>()
  #updated = new Map<string, string>()
  #isClosed = false

  constructor(clock: Clock, onNews: (news: News) => void) {
    this.#onNews = onNews
    this.#debouncer = new Debouncer({
      clock,
      quietMs: QUIET_MS,
      maxMs: MAX_MS,
      onDue: () => this.#report(),
    })
  }

  add({ uri, list, isListChange, isUpdate }: ArtifactChange): void {
    if (this.#isClosed) return
    if (isListChange) this.#lists.add(list)
    if (isUpdate) this.#updated.set(uri, list)
    this.#debouncer.touch()
  }

  /** Reports what was collected. */
  close(): void {
    this.#isClosed = true
    if (!this.#debouncer.isPending) return
    this.#debouncer.clear()
    this.#report()
  }

  #report(): void {
    const news = { lists: this.#lists, updated: this.#updated }
    this.#lists = new Set()
    this.#updated = new Map()
    this.#onNews(news)
  }
}
