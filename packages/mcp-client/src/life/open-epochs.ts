import type { Epoch } from './epoch.ts'
import { isClosed } from './epoch.ts'
import { BurstGate } from './burst-gate.ts'
import { CallCounts } from './call-counts.ts'
import { terminateSession } from './terminate-session.ts'

export interface OpenEpochsOptions {
  /** Whether new calls go there. */
  readonly isCurrent: (epoch: Epoch) => boolean
  readonly log: (level: 'debug' | 'warning', what: string, cause: unknown) => void
}

/** Epochs whose session no store names any more: whoever leaves one ends it. */
const orphans = new WeakSet<Epoch>()

/**
 * The epochs of one client that still have something open, with their calls in flight: the current one, and
 * older ones. An older one is closed when its last call has settled: they wait for their own answers.
 */
export class OpenEpochs {
  readonly #options: OpenEpochsOptions
  readonly #counts = new CallCounts()
  readonly #gate = new BurstGate()
  #closing: Set<Promise<void>> | undefined

  constructor(options: OpenEpochsOptions) {
    this.#options = options
  }

  add(epoch: Epoch): void {
    this.#counts.add(epoch)
    if (epoch.isResumed) this.#gate.close() // the server was not asked whether it still knows it
    else this.#gate.open()
  }

  /**
   * Whether one more call must wait until others have shown that the session lives. Only one that has an id
   * can be refused; a child process, or a stateless server, cannot.
   */
  holds(epoch: Epoch): boolean {
    return epoch.sessionId !== undefined && this.#gate.holds(this.#counts.of(epoch) ?? 0)
  }

  /** When what is held may go on. @throws the reason of `signal` */
  whenLetGo(signal: AbortSignal): Promise<void> {
    return this.#gate.opened(signal)
  }

  /** A call begins. */
  enter(epoch: Epoch): void {
    this.#counts.set(epoch, (this.#counts.of(epoch) ?? 0) + 1)
  }

  /** A call has ended, however it did. */
  leave(epoch: Epoch): void {
    const inFlight = this.#counts.of(epoch)
    if (inFlight !== undefined) this.#counts.set(epoch, inFlight - 1)
    this.#gate.open()
    if (inFlight === 1 && this.#options.isCurrent(epoch)) this.#gate.close()
    this.release(epoch)
  }

  isBusy(epoch: Epoch): boolean {
    return this.#counts.of(epoch) !== 0
  }

  /** Its session is to be ended by whoever leaves it: nobody else can find it. */
  orphan(epoch: Epoch): void {
    orphans.add(epoch)
  }

  /** Closes it, if it is over and has no call left. */
  release(epoch: Epoch): void {
    if (this.#options.isCurrent(epoch) || this.#counts.of(epoch) !== 0) return
    this.#counts.delete(epoch)
    const closing = this.close(epoch)
    this.#closing ??= new Set()
    this.#closing.add(closing)
    void closing.then(() => this.#closing?.delete(closing))
  }

  /** Closes it with its calls. Never rejects. */
  async close(epoch: Epoch): Promise<void> {
    const { log } = this.#options
    // A transport that is closed would look up the session in the store, and end that one.
    if (orphans.has(epoch) && !isClosed(epoch)) await terminateSession(epoch.transport, log)
    try {
      await epoch.client.close()
    } catch (error) {
      log('debug', 'closing a session failed', error)
    }
  }

  /** Knows none of them any more: whoever takes them closes them. */
  takeAll(): { readonly epochs: readonly Epoch[]; readonly closing: readonly Promise<void>[] } {
    const epochs = this.#counts.takeAll()
    const closing = [...(this.#closing ?? [])]
    this.#closing = undefined
    return { epochs, closing }
  }
}
