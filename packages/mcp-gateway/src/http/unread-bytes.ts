/** Replies from which the client took nothing for this time are dropped first when memory is short. Milliseconds. */
const STALLED_MS = 5000

/**
 * Part of the memory from which no more requests are executed. An answer needs several times its size until its bytes
 * wait here, and answers of requests in flight still come.
 */
const OPEN_PART = 0.75

/** Bytes of large answers and of events that clients have not read yet. */
export interface UnreadLimits {
  /** Limit of all connections together. */
  readonly unreadBytes: number
  /** Limit of one connection. A single answer or event may be larger. */
  readonly unreadBytesPerConnection: number
}

/** An eighth of the memory of a small server. One connection may hold a few of the largest results. */
export const UNREAD_LIMITS: UnreadLimits = {
  unreadBytes: 268_435_456,
  unreadBytesPerConnection: 33_554_432,
}

/** A reply of which bytes wait for its client. A connection has one reply at a time. */
export interface UnreadReply {
  readonly account: string
  /** Ends the connection. */
  readonly end: () => void
  /** Time at which the client last took bytes (`performance.now()`). */
  takenAt: number
  /** Number of bytes that wait. Changed by `UnreadBytes` only. */
  held: number
}

/**
 * Memory of replies that wait for their clients. Before it is full, no more requests are executed. Replies of requests in
 * flight and events still come. When it is full, replies that stalled are dropped; when it needs as much more as one
 * connection may hold, also those of the account that holds the most. So one caller cannot take the memory of all.
 */
export class UnreadBytes {
  readonly #max: number
  readonly #maxPerConnection: number
  readonly #replies = new Set<UnreadReply>()
  #total = 0

  constructor({ unreadBytes, unreadBytesPerConnection }: UnreadLimits) {
    this.#max = unreadBytes
    this.#maxPerConnection = unreadBytesPerConnection
  }

  /** Number of bytes that wait now. */
  get total(): number {
    return this.#total
  }

  /** Returns whether a request of this account may be executed. Drops replies of others where that makes room. */
  hasRoom(account: string): boolean {
    const open = this.#max * OPEN_PART
    if (this.#total < open) return true
    this.#dropStalled(open)
    while (this.#total >= open) {
      const greediest = this.#greediest()
      if (greediest === undefined || greediest === account) return false
      this.#dropOldestOf(greediest)
    }
    return true
  }

  /** Returns whether the bytes may wait. If not, the reply is dropped. */
  add(reply: UnreadReply, bytes: number): boolean {
    if (reply.held === 0) reply.takenAt = performance.now()
    else if (reply.held + bytes > this.#maxPerConnection) {
      this.#drop(reply)
      return false
    }
    this.#replies.add(reply)
    reply.held += bytes
    this.#total += bytes
    if (this.#total > this.#max) this.#dropStalled(this.#max)
    while (this.#total > this.#max + this.#maxPerConnection && this.#replies.size > 1) {
      this.#dropOldestOf(this.#greediest())
    }
    return this.#replies.has(reply)
  }

  /** Notes that bytes wait no longer. */
  release(reply: UnreadReply, bytes: number = reply.held): void {
    const released = Math.min(bytes, reply.held)
    reply.held -= released
    this.#total -= released
    if (reply.held === 0) this.#replies.delete(reply)
  }

  #drop(reply: UnreadReply): void {
    this.release(reply)
    reply.end()
  }

  #dropOldestOf(account: string | undefined): void {
    const oldest = this.#oldestFirst().find((reply) => reply.account === account)
    if (oldest) this.#drop(oldest)
  }

  /** Drops stalled replies until fewer bytes than `limit` wait. */
  #dropStalled(limit: number): void {
    const since = performance.now() - STALLED_MS
    for (const reply of this.#oldestFirst()) {
      if (this.#total < limit || reply.takenAt > since) return
      this.#drop(reply)
    }
  }

  #oldestFirst(): readonly UnreadReply[] {
    return [...this.#replies].toSorted((a, b) => a.takenAt - b.takenAt)
  }

  #greediest(): string | undefined {
    const sums = new Map<string, number>()
    for (const { account, held } of this.#replies)
      sums.set(account, (sums.get(account) ?? 0) + held)
    const [first] = [...sums].toSorted(([, a], [, b]) => b - a)
    return first?.[0]
  }
}
