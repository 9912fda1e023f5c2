import type { TransportError } from '@x/mcp-transport'
import type { McpClientEvents } from '../client-options.ts'
import { shortIdOf } from './epoch.ts'
import type { Epoch } from './epoch.ts'
import { recoveryDelayMs } from './retry-timing.ts'
import type { RetryTiming } from './retry-timing.ts'

/**
 * How the sessions of one life follow each other: which was the last one, why it was given up, and how many
 * were lost without a success between them. Pure: nothing is opened or told here.
 */
export class Succession {
  #last: Epoch | undefined
  #reason = ''
  #loss: TransportError | undefined
  #lossesInRow = 0

  /** There was a session before. */
  get hasBegun(): boolean {
    return this.#last !== undefined
  }

  /** With what the server refused the last session, until there is a new one. */
  get loss(): TransportError | undefined {
    return this.#loss
  }

  /** A session that goes on knows what it was told; but not if it is another one than this client's before. */
  isContinuedBy(epoch: Epoch): boolean {
    return epoch.isResumed && (!this.hasBegun || this.#last?.sessionId === epoch.sessionId)
  }

  /** The server no longer knew the session. */
  refused(loss: TransportError): void {
    this.#loss = loss
    this.#reason = 'The server no longer knew the session'
    this.#lossesInRow++
  }

  /** The connection has ended, not by this side. */
  broken(reason: string): void {
    this.#reason = reason
    this.#lossesInRow++
  }

  /** The session was left for another one. */
  left(reason: string): void {
    this.#reason = reason
  }

  /** A call has succeeded in the session. */
  succeeded(): void {
    this.#lossesInRow = 0
  }

  /** How long to wait before the next session is opened: the first recovery is immediate. */
  delayMs(timing: RetryTiming): number {
    return recoveryDelayMs(this.#lossesInRow, timing)
  }

  /** The next session is there. Says what it replaces, if there was one before. */
  continueWith(epoch: Epoch): McpClientEvents['sessionReplaced'] | undefined {
    const old = this.#last
    this.#last = epoch
    this.#loss = undefined
    return old === undefined
      ? undefined
      : {
          oldEpoch: old.number,
          newEpoch: epoch.number,
          oldSessionId: shortIdOf(old),
          newSessionId: shortIdOf(epoch),
          reason: this.#reason,
        }
  }
}
