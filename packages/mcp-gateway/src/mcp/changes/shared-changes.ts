import { isRecord } from '@x/internal'
import type { Clock } from '../../internal/clock.ts'
import type { Messages } from '../../store/gateway-store.ts'
import type { Changes, ChangingList } from './changes.ts'

export interface SharedChangesOptions {
  readonly messages: Messages
  readonly changes: Changes
  /** Lists that clients hear of here. */
  readonly lists: readonly ChangingList[]
  /** Names this process among those that share the store. */
  readonly replica: string
  readonly clock: Clock
  readonly onError: (error: Error) => void
}

const TOPIC = 'changes'
/** Several processes notice the same change, each for itself: what comes again so soon is told once, afterwards. */
const MERGE_MS = 250
const RETRY_MS = 1000

/**
 * Carries changes of tools and prompts between the processes of one gateway, to clients of both eras. What was
 * lost on the way, while the store was away, is made good by telling clients once that all may have changed.
 * Changes of files are in the store for every process to hear.
 */
export class SharedChanges {
  readonly #options: SharedChangesOptions
  /** Lists of which clients were told a moment ago, with the undo of their time. */
  readonly #recent = new Map<string, { isDue: boolean; readonly undo: () => void }>()
  #starting: Promise<void> | undefined
  #unsubscribe: (() => void) | undefined
  #undoRetry: (() => void) | undefined
  #owesAll = false
  #isClosed = false

  constructor(options: SharedChangesOptions) {
    this.#options = options
    options.changes.carryBy((list) => this.#noticed(list))
  }

  /** Begins to hear of others, once; while that fails it is tried again. Never rejects. */
  start(): Promise<void> {
    this.#starting ??= this.#join()
    return this.#starting
  }

  close(): void {
    this.#isClosed = true
    this.#unsubscribe?.()
    this.#undoRetry?.()
    for (const { undo } of this.#recent.values()) undo()
    this.#recent.clear()
  }

  async #join(): Promise<void> {
    const { messages } = this.#options
    try {
      const unsubscribe = await messages.subscribe(
        TOPIC,
        (message) => this.#received(message),
        () => this.#catchUp(),
      )
      if (this.#isClosed) unsubscribe()
      else this.#unsubscribe = unsubscribe
    } catch (error) {
      this.#report('Changes at other processes cannot be heard of now', error)
      this.#retryLater()
    }
  }

  #noticed(list: ChangingList): void {
    if (this.#isClosed) return
    this.#deliver(list)
    void this.#publish({ list })
  }

  async #publish(message: { readonly list?: ChangingList; readonly all?: true }): Promise<void> {
    const { messages, replica } = this.#options
    try {
      await messages.publish(TOPIC, { from: replica, ...message })
      if (message.all) this.#owesAll = false
    } catch (error) {
      if (!this.#owesAll) this.#report('Other processes could not be told of a change', error)
      this.#owesAll = true
      this.#retryLater()
    }
  }

  #retryLater(): void {
    if (this.#undoRetry || this.#isClosed) return
    this.#undoRetry = this.#options.clock.after(RETRY_MS, () => {
      this.#undoRetry = undefined
      void this.#retry()
    })
  }

  async #retry(): Promise<void> {
    if (!this.#unsubscribe) {
      await this.#join()
      if (this.#unsubscribe) this.#catchUp()
    }
    if (this.#owesAll && !this.#isClosed) await this.#publish({ all: true })
  }

  #received(message: unknown): void {
    if (!isRecord(message) || message['from'] === this.#options.replica) return
    if (message['all'] === true) return this.#catchUp()
    const { list } = message
    if (list === 'tools' || list === 'prompts') this.#deliver(list)
  }

  #deliver(list: ChangingList): void {
    const recent = this.#recent.get(list)
    if (recent) {
      recent.isDue = true
      return
    }
    this.#told(list)
    this.#options.changes.deliver({ type: list })
  }

  /** From now on the same is held back for a moment. */
  #told(list: ChangingList): void {
    this.#recent.get(list)?.undo()
    const undo = this.#options.clock.after(MERGE_MS, () => {
      const isDue = this.#recent.get(list)?.isDue ?? false
      this.#recent.delete(list)
      if (!isDue) return
      this.#told(list)
      this.#options.changes.deliver({ type: list })
    })
    this.#recent.set(list, { isDue: false, undo })
  }

  #catchUp(): void {
    const { changes, lists } = this.#options
    for (const type of lists) changes.deliver({ type })
  }

  #report(message: string, cause: unknown): void {
    this.#options.onError(new Error(message, { cause }))
  }
}
