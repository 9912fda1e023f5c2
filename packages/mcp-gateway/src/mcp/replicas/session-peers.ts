import { isRecord } from '@x/internal'
import type { Clock } from '../../internal/clock.ts'
import { GatewayError } from '../../errors.ts'
import type { Messages } from '../../store/gateway-store.ts'
import { sessionSignalFrom, type SessionSignal } from './session-signal.ts'

export interface SessionPeersOptions {
  readonly messages: Messages
  /** Names this process among those that share the store. */
  readonly replica: string
  readonly clock: Clock
  /** How long an answer is waited for; then the other process counts as dead. */
  readonly answerMs: number
  /** A signal of another process. @returns the answer, for one who asked */
  readonly onSignal: (
    session: string,
    signal: SessionSignal,
    from: string,
  ) => Promise<string | undefined> | string | undefined
  /** Signals may have been missed. */
  readonly onGap: () => void
  readonly onError: (error: Error) => void
}

const TOPIC = 'sessions'

/** The other processes that have sessions of the same gateway. All hear all signals: those are few. */
export class SessionPeers {
  readonly #options: SessionPeersOptions
  readonly #asked = new Map<number, Question>()
  #questions = 0
  #subscription: Promise<() => void> | undefined
  #isClosed = false

  constructor(options: SessionPeersOptions) {
    this.#options = options
  }

  /** Resolves when signals of others arrive here. @throws GatewayError `UNAVAILABLE` */
  async ready(): Promise<void> {
    if (this.#isClosed) throw new GatewayError('CLOSED', 'The gateway is closed')
    this.#subscription ??= this.#subscribe()
    await this.#subscription
  }

  /** Tells all others. @throws GatewayError `UNAVAILABLE` */
  async tell(session: string, signal: SessionSignal): Promise<void> {
    await this.#publish({ session, signal })
  }

  /** @returns the answer; `undefined`: there is no such process (any more). @throws GatewayError `UNAVAILABLE` */
  async ask(session: string, to: string, signal: SessionSignal): Promise<string | undefined> {
    await this.ready()
    const question = ++this.#questions
    let undo: (() => void) | undefined
    const answered = new Promise<string | undefined>((resolve, reject) => {
      this.#asked.set(question, { resolve, reject })
      undo = this.#options.clock.after(this.#options.answerMs, () => resolve(undefined))
    })
    answered.catch(() => undefined) // where this closes before the question is out
    try {
      await this.#publish({ session, signal, to, question })
      return await answered
    } finally {
      undo?.()
      this.#asked.delete(question)
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const { reject } of this.#asked.values()) {
      reject(new GatewayError('CLOSED', 'The gateway is closed'))
    }
    const subscription = this.#subscription
    this.#subscription = undefined
    await subscription?.then(
      (unsubscribe) => unsubscribe(),
      () => undefined,
    )
  }

  async #subscribe(): Promise<() => void> {
    const { messages, onGap } = this.#options
    try {
      return await messages.subscribe(TOPIC, (message) => this.#received(message), onGap)
    } catch (error) {
      this.#subscription = undefined
      throw error
    }
  }

  async #publish(message: Readonly<Record<string, unknown>>): Promise<void> {
    const { messages, replica } = this.#options
    await messages.publish(TOPIC, { from: replica, ...message })
  }

  #received(received: unknown): void {
    const { replica, onError } = this.#options
    if (!isRecord(received)) return
    const { from, to, session, question, answer } = received
    if (from === replica || typeof from !== 'string') return
    const isElsewhere = typeof to === 'string' && to !== replica
    if (typeof question === 'number' && typeof answer === 'string') {
      return isElsewhere ? undefined : this.#asked.get(question)?.resolve(answer)
    }
    const signal = sessionSignalFrom(received['signal'])
    // That a stream is read at one process is of interest to each that read it before.
    if (isElsewhere && signal?.type !== 'follow') return
    if (!signal || typeof session !== 'string' || this.#isClosed) return
    const isAsked = to === replica && typeof question === 'number'
    this.#handle(session, signal, { from, question: isAsked ? question : undefined }).catch(
      (error: unknown) => {
        onError(new Error('A signal of another process could not be answered', { cause: error }))
      },
    )
  }

  async #handle(
    session: string,
    signal: SessionSignal,
    { from, question }: { readonly from: string; readonly question: number | undefined },
  ): Promise<void> {
    const answer = await this.#options.onSignal(session, signal, from)
    if (question === undefined || answer === undefined) return
    await this.#publish({ to: from, question, answer })
  }
}

interface Question {
  readonly resolve: (answer: string) => void
  readonly reject: (error: Error) => void
}
