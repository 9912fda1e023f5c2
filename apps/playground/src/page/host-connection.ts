import { EMPTY_STATE, reduce } from '../timeline/state.ts'
import type { Notice, PlaygroundState } from '../timeline/state.ts'
import type { Command, ExchangeDetails, TimelineEvent } from '../timeline/events.ts'

/** State of the playground as the page knows it, and of the connection to the host. */
export interface View {
  readonly state: PlaygroundState
  readonly link: Link
  /** Notices of the page itself: failed commands and lost connections. Their ids are negative. */
  readonly ownNotices: readonly Notice[]
  /** Id of the last event before the page was opened: older notices are history. */
  readonly firstEventId: number
}

type Link =
  | { readonly phase: 'connecting' }
  | { readonly phase: 'live' }
  | { readonly phase: 'lost'; readonly since: number }

export type Send = (command: Command) => Promise<boolean>

/** Many events arrive at once (50 calls, streamed words): the page is drawn once for all of them. */
const BATCH_MS = 16
const REOPEN_MS = 1000

/** Follows the events of the host, and sends it commands. */
export class HostConnection {
  readonly #base: string
  readonly #listeners = new Set<() => void>()
  #view: View = {
    state: EMPTY_STATE,
    link: { phase: 'connecting' },
    ownNotices: [],
    firstEventId: 0,
  }
  #pending: TimelineEvent[] = []
  #hasSnapshot = false
  /** When the connection was lost, until the first message after it says what was missed. */
  #lostSince: number | undefined

  constructor(base: string) {
    this.#base = base
  }

  readonly view = (): View => this.#view

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Opens the stream of events. The browser reconnects by itself, and sends the id of the last event. */
  open(): void {
    const source = new EventSource(`${this.#base}/events`)
    source.addEventListener('open', () => this.#set({ link: { phase: 'live' } }))
    source.addEventListener('snapshot', (message: MessageEvent<string>) => {
      const state: PlaygroundState = JSON.parse(message.data)
      this.#flush()
      this.#welcomeSnapshot(state)
    })
    source.addEventListener('message', (message: MessageEvent<string>) => {
      if (this.#pending.length === 0) setTimeout(() => this.#flush(), BATCH_MS)
      this.#pending.push(JSON.parse(message.data))
    })
    source.addEventListener('error', () => {
      if (this.#view.link.phase !== 'lost') {
        this.#lostSince = Date.now()
        this.#set({ link: { phase: 'lost', since: this.#lostSince } })
      }
      // The browser gives up only on an answer that is not a stream of events.
      if (source.readyState === EventSource.CLOSED) setTimeout(() => this.open(), REOPEN_MS)
    })
  }

  /** Sends a command. Returns false if that failed: the failure is a notice. */
  readonly send: Send = async (command) => {
    try {
      const response = await fetch(`${this.#base}/commands`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(command),
      })
      if (response.ok) return true
      const { error } = await response.json()
      this.#notify('problem', String(error))
    } catch {
      this.#notify(
        'problem',
        'The playground did not answer: the command may have run or not. Look at its terminal.',
      )
    }
    return false
  }

  readonly loadExchange = async (id: number): Promise<ExchangeDetails> => {
    const response = await fetch(`${this.#base}/exchanges/${id}`)
    if (!response.ok) {
      throw new Error('The playground no longer has this exchange. It keeps the newest 2,000.')
    }
    return await response.json()
  }

  readonly dismiss = (id: number): void => {
    this.#set({ ownNotices: this.#view.ownNotices.filter((notice) => notice.id !== id) })
  }

  #welcomeSnapshot(state: PlaygroundState): void {
    const isOlder = state.lastEventId < this.#view.state.lastEventId
    if (this.#lostSince !== undefined) {
      this.#lostSince = undefined
      this.#notify(
        'info',
        isOlder
          ? 'Connected again. The playground was started anew: what was on this page is over.'
          : 'Connected again. The page shows the newest state.',
      )
    }
    this.#set({
      state,
      ...(!this.#hasSnapshot || isOlder ? { firstEventId: state.lastEventId } : {}),
    })
    this.#hasSnapshot = true
  }

  #flush(): void {
    const events = this.#pending
    this.#pending = []
    if (events.length === 0) return
    const since = this.#lostSince
    if (since !== undefined) {
      this.#lostSince = undefined
      this.#notify('info', `Connected again. ${caughtUp(events.length)}`)
    }
    this.#set({ state: events.reduce(reduce, this.#view.state) })
  }

  #notify(level: Notice['level'], text: string): void {
    const notice = { id: -Date.now() - Math.random(), at: Date.now(), level, text }
    this.#set({ ownNotices: [...this.#view.ownNotices.slice(-4), notice] })
  }

  #set(change: Partial<View>): void {
    this.#view = { ...this.#view, ...change }
    for (const listener of this.#listeners) listener()
  }
}

function caughtUp(count: number): string {
  return count === 1
    ? '1 event happened in between; the page shows it now.'
    : `${count} events happened in between; the page shows them now.`
}
