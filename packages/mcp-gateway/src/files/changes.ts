import { isRecord } from '@x/internal'
import type { IndexChange } from './artifact-index.ts'
import type { ArtifactChange, Artifacts } from './artifacts.ts'
import { artifactUriOf } from './uri.ts'
import type { Clock } from '../internal/clock.ts'
import { Debouncer } from '../internal/debouncer.ts'
import type { Messages } from '../store/gateway-store.ts'

const TOPIC = 'artifacts'

/** Changes of artifacts, sent to all processes that share the store. */
export class ArtifactChanges {
  readonly #messages: Messages
  readonly #uriScheme: string

  constructor(messages: Messages, uriScheme: string) {
    this.#messages = messages
    this.#uriScheme = uriScheme
  }

  /** Never rejects: the change is stored even if it cannot be sent now. */
  async tell({ scope, name, list, version, isNewName }: IndexChange): Promise<void> {
    const isUpdate = version !== undefined
    const change: ArtifactChange = {
      uri: artifactUriOf({ scope, name }, this.#uriScheme),
      scope,
      list,
      isUpdate,
      isListChange: isNewName || !isUpdate,
    }
    await this.#messages.publish(TOPIC, change).catch(() => {})
  }

  /** `onGap`: some changes may have been missed. @returns a function that removes the listener */
  hear(listener: (change: ArtifactChange) => void, onGap?: () => void): Promise<() => void> {
    const hear = (message: unknown): void => {
      const change = changeFrom(message)
      if (change) listener(change)
    }
    return this.#messages.subscribe(TOPIC, hear, onGap)
  }
}

function changeFrom(message: unknown): ArtifactChange | undefined {
  if (!isRecord(message)) return undefined
  const { uri, scope, list, isListChange, isUpdate } = message
  if (typeof uri !== 'string' || typeof scope !== 'string' || typeof list !== 'string')
    return undefined
  return { uri, scope, list, isListChange: isListChange === true, isUpdate: isUpdate === true }
}

export interface ArtifactNewsOptions {
  readonly artifacts: Pick<Artifacts, 'onChange'>
  readonly clock: Clock
  readonly onNews: (news: News) => void
  /** Called when the store cannot be listened to. It is tried again. */
  readonly onError: (error: Error) => void
}

/** Changes of a short time. */
export type News =
  | {
      readonly type: 'changes'
      /** Ids of lists that have one more or one less entry. */
      readonly lists: ReadonlySet<string>
      /** URIs with new versions, each with the id of its list. */
      readonly updated: ReadonlyMap<string, string>
    }
  /** Some changes were missed. */
  | { readonly type: 'gap' }

/** A run may write a hundred files at once. */
const QUIET_MS = 50
const MAX_MS = 500
const RETRY_MS = 5000

/** Collects changes of all processes, and reports many of them at once. */
export class ArtifactNews {
  readonly #options: ArtifactNewsOptions
  readonly #debouncer: Debouncer
  #lists = new Set<string>()
  #updated = new Map<string, string>()
  #listening: Promise<void> | undefined
  #undo: (() => void) | undefined
  #isClosed = false

  constructor(options: ArtifactNewsOptions) {
    const { clock } = options
    this.#options = options
    this.#debouncer = new Debouncer({
      clock,
      quietMs: QUIET_MS,
      maxMs: MAX_MS,
      onDue: () => this.#tell(),
    })
  }

  /** Begins to listen, once. Never rejects: it tries again after a failure. */
  start(): Promise<void> {
    this.#listening ??= this.#listen()
    return this.#listening
  }

  close(): void {
    this.#isClosed = true
    this.#undo?.()
    this.#debouncer.clear()
  }

  async #listen(): Promise<void> {
    const { artifacts, clock, onError, onNews } = this.#options
    if (this.#isClosed) return
    try {
      const undo = await artifacts.onChange(
        (change) => this.#collect(change),
        () => onNews({ type: 'gap' }),
      )
      if (this.#isClosed) undo()
      else this.#undo = undo
    } catch (cause) {
      onError(new Error('Changes of files cannot be heard now', { cause }))
      if (!this.#isClosed) this.#undo = clock.after(RETRY_MS, () => void this.#listen())
    }
  }

  #collect({ uri, list, isListChange, isUpdate }: ArtifactChange): void {
    if (this.#isClosed) return
    if (isListChange) this.#lists.add(list)
    if (isUpdate) this.#updated.set(uri, list)
    this.#debouncer.touch()
  }

  #tell(): void {
    const news = { type: 'changes', lists: this.#lists, updated: this.#updated } as const
    this.#lists = new Set()
    this.#updated = new Map()
    this.#options.onNews(news)
  }
}
