import type { LimitSettings } from '../options.ts'
/** Answers that accepted nothing for this long are given up first when memory is short. */
const STALLED_MS = 5000

/**
 * Memory that answers hold until their clients take them. When it is full, answers that are not read are given up,
 * first those that stalled, then those of the owner who holds the most: one caller cannot fill it for all.
 */
export class UnreadBytes {
  readonly #max: number
  readonly #maxPerConnection: number
  readonly #answers = new Set<UnreadAnswer>()
  #total = 0

  constructor({
    unreadBytes,
    unreadBytesPerConnection,
  }: Pick<LimitSettings, 'unreadBytes' | 'unreadBytesPerConnection'>) {
    this.#max = unreadBytes
    this.#maxPerConnection = unreadBytesPerConnection
  }

  /** Bytes that are held now. */
  get total(): number {
    return this.#total
  }

  /** Whether a request of this owner may be served: asked before it runs. Gives up answers of others where that helps. */
  hasRoom(owner: string): boolean {
    return this.#total < this.#max || this.#makeRoomFor(owner)
  }

  /** @param drop ends the connection of an answer that is given up */
  open(owner: string, drop: () => void): UnreadAnswer {
    const answer = new UnreadAnswer(owner, {
      isTooMuch: (held, more) => held > 0 && held + more > this.#maxPerConnection,
      drop,
      change: (bytes) => {
        this.#total += bytes
        if (answer.held > 0) this.#answers.add(answer)
        else this.#answers.delete(answer)
        if (bytes > 0 && this.#total > this.#max) this.#dropStalled()
      },
    })
    return answer
  }

  #makeRoomFor(owner: string): boolean {
    this.#dropStalled()
    while (this.#total >= this.#max) {
      const greediest = this.#greediest()
      if (greediest === undefined || greediest === owner) return false
      const [oldest] = this.#oldestFirst().filter((answer) => answer.owner === greediest)
      oldest?.giveUp()
    }
    return true
  }

  #dropStalled(): void {
    const since = performance.now() - STALLED_MS
    for (const answer of this.#oldestFirst()) {
      if (this.#total < this.#max || answer.takenAt > since) return
      answer.giveUp()
    }
  }

  #oldestFirst(): readonly UnreadAnswer[] {
    return [...this.#answers].toSorted((a, b) => a.takenAt - b.takenAt)
  }

  #greediest(): string | undefined {
    const sums = new Map<string, number>()
    for (const { owner, held } of this.#answers) sums.set(owner, (sums.get(owner) ?? 0) + held)
    const [first] = [...sums].toSorted(([, a], [, b]) => b - a)
    return first?.[0]
  }
}

interface AnswerParts {
  readonly isTooMuch: (held: number, more: number) => boolean
  readonly drop: () => void
  readonly change: (bytes: number) => void
}

/** What one answer holds. A connection has one answer at a time. */
class UnreadAnswer {
  readonly owner: string
  /** When its client last took bytes, by `performance.now()`. */
  takenAt: number = performance.now()
  /** bytes */
  held = 0
  readonly #parts: AnswerParts

  constructor(owner: string, parts: AnswerParts) {
    this.owner = owner
    this.#parts = parts
  }

  /** @returns whether they may wait; else the answer was given up */
  add(bytes: number): boolean {
    if (this.#parts.isTooMuch(this.held, bytes)) {
      this.giveUp()
      return false
    }
    if (this.held === 0) this.takenAt = performance.now()
    this.held += bytes
    this.#parts.change(bytes)
    return true
  }

  /** The client took some of them. */
  progress(): void {
    this.takenAt = performance.now()
  }

  /** @param bytes that need no memory any more. @default all */
  release(bytes: number = this.held): void {
    if (bytes === 0 || this.held === 0) return
    this.held -= bytes
    this.#parts.change(-bytes)
  }

  giveUp(): void {
    this.release()
    this.#parts.drop()
  }
}

export type { UnreadAnswer }
