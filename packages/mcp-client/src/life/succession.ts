import type { TransportError } from '@x/mcp-transport'
import type { McpClientEvents } from '../client-options.ts'
import { shortIdOf } from './epoch.ts'
import type { Epoch } from './epoch.ts'
import { recoveryDelayMs } from './retry-timing.ts'
import type { RetryTiming } from './retry-timing.ts'

/** Sessions that replaced a lost one, and in which no call has succeeded. */
const doubtful = new WeakSet<Epoch>()

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
  succeeded(epoch: Epoch): void {
    if (this.#lossesInRow === 0) return
    this.#lossesInRow = 0
    doubtful.delete(epoch)
  }

  /**
   * The loss, without certainty in a session that was opened because of a loss and has answered no call: a
   * tool that fails with 404 looks the same each time, and has run.
   */
  judged(epoch: Epoch, loss: TransportError): TransportError {
    const wasSent = loss.status !== undefined
    if (loss.certain !== true || !wasSent || !doubtful.has(epoch)) return loss
    const message = `${loss.message}, although it has only just been opened`
    return loss.with({ message, certain: false, outcome: 'unknown' })
  }

  /** How long to wait before the next session is opened: the first recovery is immediate. */
  delayMs(timing: RetryTiming): number {
    return recoveryDelayMs(this.#lossesInRow, timing)
  }

  /** The next session is there. Says what it replaces, if there was one before. */
  continueWith(epoch: Epoch): McpClientEvents['sessionReplaced'] | undefined {
    const old = this.#last
    this.#last = epoch
    if (this.#loss !== undefined) doubtful.add(epoch)
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
