import { once } from 'node:events'
import type { Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'

/**
 * Keeps answers that are not out yet, so that the last one on each connection can end it. Not in a `Set`: one
 * that thousands go through each second leaves its outgrown tables to the next full collection, with all that
 * was in them.
 */
export class InFlight {
  readonly #answers: (ServerResponse | undefined)[] = []
  readonly #free: number[] = []
  #isEnding = false

  add(answer: ServerResponse): void {
    if (this.#isEnding) answer.shouldKeepAlive = false
    const place = this.#free.pop() ?? this.#answers.length
    this.#answers[place] = answer
    answer.once('close', () => {
      this.#answers[place] = undefined
      this.#free.push(place)
    })
  }

  get size(): number {
    return this.#answers.length - this.#free.length
  }

  /** Whether a part of an answer is out on this connection. */
  hasBegun(socket: Duplex): boolean {
    return this.#answers.some((answer) => answer?.socket === socket && answer.headersSent)
  }

  /** Otherwise a kept-alive connection would hold the server open after its last answer. */
  endConnections(): void {
    this.#isEnding = true
    for (const answer of this.#answers) if (answer) answer.shouldKeepAlive = false
  }
}

/** Lets requests in flight finish, for at most `closeMs`. Resolves to the number of those that were cut. */
export async function closeGracefully(
  server: Server,
  inFlight: InFlight,
  closeMs: number,
): Promise<number> {
  let cut = 0
  const closed = once(server, 'close')
  inFlight.endConnections()
  server.close()
  const limit = setTimeout(() => {
    cut = inFlight.size
    server.closeAllConnections()
  }, closeMs)
  try {
    await closed
    return cut
  } finally {
    clearTimeout(limit)
  }
}
