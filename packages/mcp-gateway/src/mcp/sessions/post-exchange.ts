const NONE: readonly never[] = []

/** One POST of a session, until its answers are with the client. */
export class PostExchange {
  /** Ids of its requests. */
  readonly ids: readonly (string | number)[]
  /** Ids of requests that were not answered yet. */
  readonly unanswered: Set<string | number>
  /** Ids of requests that its client has cancelled. */
  cancelled: readonly (string | number)[] = NONE
  /** Those of them that the SDK was not told to forget yet. */
  withdrawn: readonly (string | number)[] = NONE
  /** The stream of its answer, once something was kept of it. */
  stream: string | undefined
  /** Its client reads it at another process. */
  isFollowed = false
  #connection = 0
  #stopGrace: (() => void) | undefined

  constructor(ids: readonly (string | number)[]) {
    this.ids = ids
    this.unanswered = new Set(ids)
  }

  /** A connection reads its stream from now on. @returns what its end is reported with: that of an earlier one says nothing */
  attach(): number {
    this.#stopGrace?.()
    this.#stopGrace = undefined
    this.isFollowed = false
    return ++this.#connection
  }

  /** The client wants no answer to this any more. @returns whether it was under way */
  withdraw(id: string | number): boolean {
    if (!this.unanswered.delete(id)) return false
    this.cancelled = [...this.cancelled, id]
    this.withdrawn = [...this.withdrawn, id]
    return true
  }

  isCurrent(connection: number): boolean {
    return connection === this.#connection
  }

  /** Nobody reads its stream. @param stop ends the wait for somebody who does */
  detach(stop: () => void): void {
    this.#stopGrace?.()
    this.#stopGrace = stop
  }
}
