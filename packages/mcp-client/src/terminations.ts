import { untilAborted } from '@x/internal'
import { Deadline } from './deadline.ts'
import { getTransportError } from './errors.ts'
import type { ServerConnection } from './requests.ts'

/** Shorter than the limit of `dispose()`, so that time remains to close the connections. */
const TERMINATE_MS = 900

interface Logging {
  log(level: 'warning', message: string, cause?: unknown): void
}

/** Terminates the session on the server within 0.9 s. Never rejects. Returns whether the server has answered. */
export async function terminateSession(
  connection: ServerConnection,
  session: Logging,
): Promise<boolean> {
  using deadline = new Deadline(TERMINATE_MS)
  try {
    await untilAborted(connection.terminate(), deadline.signal)
    return true
  } catch (error) {
    session.log('warning', 'the session could not be terminated on the server', error)
    return getTransportError(error)?.status !== undefined
  }
}

/** Number of sessions of one client that are terminated at the same time: a server cannot answer a thousand at once. */
const MAX_TERMINATIONS = 16
/** Longest time that a session waits until it is terminated, in milliseconds. */
const TERMINATIONS_MS = 20_000

/**
 * Terminates the sessions of one client, a few at a time. If the server does not answer, the sessions that wait are left
 * to its own time limit: a client that closes must not wait once for each session.
 */
export class Terminations {
  readonly #waiting: (() => void)[] = []
  #running = 0
  /** Number of terminations without an answer since the last answer. */
  #unanswered = 0

  /** Never rejects. */
  async run(session: Logging, terminate: () => Promise<boolean>): Promise<void> {
    using deadline = new Deadline(TERMINATIONS_MS)
    const onLate = (): void => this.#waiting.splice(0).forEach((next) => next())
    deadline.signal.addEventListener('abort', onLate, { once: true })
    if (this.#running === 0) this.#unanswered = 0
    while (this.#running >= MAX_TERMINATIONS && !deadline.signal.aborted) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
      if (!this.#isSilent && !deadline.signal.aborted) continue
      const message = 'the session was not terminated on the server, which does not answer in time'
      return session.log('warning', message)
    }
    this.#running++
    try {
      this.#unanswered = (await terminate()) ? 0 : this.#unanswered + 1
    } finally {
      this.#running--
      if (this.#isSilent) onLate()
      else this.#waiting.shift()?.()
    }
  }

  get #isSilent(): boolean {
    return this.#unanswered >= MAX_TERMINATIONS
  }
}
