import type { LimitSettings } from '../options.ts'

/** Replies from which the client took nothing for this time are dropped first when memory is short. Milliseconds. */
const STALLED_MS = 5000

/**
 * Memory of replies that wait for their clients. When it is full, replies are dropped: first those that stalled, then
 * those of the owner that holds the most. So one caller cannot take the memory of all.
 */
export class UnreadBytes {
  readonly #max: number
  readonly #maxPerConnection: number
  readonly #replies = new Set<UnreadReply>()
  #total = 0

  constructor({
    unreadBytes,
    unreadBytesPerConnection,
  }: Pick<LimitSettings, 'unreadBytes' | 'unreadBytesPerConnection'>) {
    this.#max = unreadBytes
    this.#maxPerConnection = unreadBytesPerConnection
  }

  /** Number of bytes that wait now. */
  get total(): number {
    return this.#total
  }

  /** Returns whether a request of this owner may be executed. Drops replies of others where that makes room. */
  hasRoom(owner: string): boolean {
    if (this.#total < this.#max) return true
    this.#dropStalled()
    while (this.#total >= this.#max) {
      const greediest = this.#greediest()
      if (greediest === undefined || greediest === owner) return false
      this.#oldestFirst()
        .find((reply) => reply.owner === greediest)
        ?.drop()
    }
    return true
  }

  /** @param end ends the connection of a reply that is dropped */
  open(owner: string, end: () => void): UnreadReply {
    return new UnreadReply(owner, this, end)
  }

  /** Counts a change of one reply. Returns whether the connection may hold that many bytes. */
  change(reply: UnreadReply, bytes: number): boolean {
    if (bytes > 0 && reply.held > 0 && reply.held + bytes > this.#maxPerConnection) return false
    reply.held += bytes
    this.#total += bytes
    if (reply.held > 0) this.#replies.add(reply)
    else this.#replies.delete(reply)
    if (bytes > 0 && this.#total > this.#max) this.#dropStalled()
    return true
  }

  #dropStalled(): void {
    const since = performance.now() - STALLED_MS
    for (const reply of this.#oldestFirst()) {
      if (this.#total < this.#max || reply.takenAt > since) return
      reply.drop()
    }
  }

  #oldestFirst(): readonly UnreadReply[] {
    return [...this.#replies].toSorted((a, b) => a.takenAt - b.takenAt)
  }

  #greediest(): string | undefined {
    const sums = new Map<string, number>()
    for (const { owner, held } of this.#replies) sums.set(owner, (sums.get(owner) ?? 0) + held)
    const [first] = [...sums].toSorted(([, a], [, b]) => b - a)
    return first?.[0]
  }
}

/** Bytes of one reply that wait for its client. A connection has one reply at a time. */
class UnreadReply {
  readonly owner: string
  /** Time at which the client last took bytes (`performance.now()`). */
  takenAt: number = performance.now()
  /** Number of bytes that wait. Changed by `UnreadBytes` only. */
  held = 0
  readonly #all: UnreadBytes
  readonly #end: () => void

  constructor(owner: string, all: UnreadBytes, end: () => void) {
    this.owner = owner
    this.#all = all
    this.#end = end
  }

  /** Returns whether the bytes may wait. If not, the reply is dropped. */
  add(bytes: number): boolean {
    if (this.held === 0) this.takenAt = performance.now()
    const isAllowed = this.#all.change(this, bytes)
    if (!isAllowed) this.drop()
    return isAllowed
  }

  /** Notes that the client took some bytes. */
  progress(): void {
    this.takenAt = performance.now()
  }

  /** @param bytes number of bytes that wait no longer. @default all */
  release(bytes: number = this.held): void {
    if (bytes > 0 && this.held > 0) this.#all.change(this, -bytes)
  }

  drop(): void {
    this.release()
    this.#end()
  }
}

export type { UnreadReply }
