import { isRecord } from '@x/internal'
import type { IndexChange } from './artifact-index.ts'
import type { ArtifactChange, Artifacts } from './artifacts.ts'
import { artifactUriOf } from './uri.ts'
import type { Clock } from '../internal/clock.ts'
import { Debouncer } from '../internal/debouncer.ts'
import type { Messages } from '../store/gateway-store.ts'

const TOPIC = 'artifacts'

/** Changes of artifacts, as all processes that share the store tell them each other. */
export class ArtifactChanges {
  readonly #messages: Messages
  readonly #uriScheme: string

  constructor(messages: Messages, uriScheme: string) {
    this.#messages = messages
    this.#uriScheme = uriScheme
  }

  /** Never rejects: what changed is stored, and stays so if nobody can be told now. */
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

  /** `onGap`: of some nothing may have been heard. @returns the end of it */
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
  /** The store cannot say what changes; it is asked again. */
  readonly onError: (error: Error) => void
}

/** What changed in a while. */
export type News =
  | {
      readonly type: 'changes'
      /** Lists with another entry, or one less. */
      readonly lists: ReadonlySet<string>
      /** URIs with something new to read, each with the list it is in. */
      readonly updated: ReadonlyMap<string, string>
    }
  /** Some of it was not heard. */
  | { readonly type: 'gap' }

/** A run may make a hundred files within one breath. */
const QUIET_MS = 50
const MAX_MS = 500
const RETRY_MS = 5000

/** Hears which artifacts change, whichever process changed them, and tells it once for many. */
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

  /** Begins to listen, once. Never rejects: what could not be begun is tried again. */
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
