import { Listeners, splitErrorLink } from '@x/internal'
import type { ExchangeEvent } from '@x/mcp-transport'
import type { ServerLog } from './handlers.ts'
import type { SessionScope } from './session-scope.ts'

/** Events of a client. Session ids are shortened. */
export interface McpClientEvents {
  state: { readonly from: string; readonly to: string; readonly reason: string }
  /** A session replaced a lost one. State that the server kept in the old session is gone. */
  sessionReplaced: {
    readonly oldEpoch: number
    readonly newEpoch: number
    readonly oldSessionId: string | undefined
    readonly newSessionId: string | undefined
    readonly reason: string
  }
  toolsChanged: {
    readonly added: readonly string[]
    readonly removed: readonly string[]
    readonly changed: readonly string[]
  }
  log: {
    readonly level: 'debug' | 'info' | 'warning'
    readonly message: string
    readonly cause: unknown
  }
  exchange: ExchangeEvent
  /** The server reported a change of its list of tools. The next list emits `toolsChanged` with the differences. */
  toolListChanged: { readonly server: string }
  /** The list of prompts has changed; `server` as in `McpClientError`. */
  promptsChanged: { readonly server: string }
  /** The list of resources has changed. */
  resourcesChanged: { readonly server: string }
  /** A subscribed resource has changed. */
  resourceUpdated: { readonly uri: string }
  /** The server sent a log message. */
  serverLog: ServerLog
}

type EventName = keyof McpClientEvents
type LogEvent = McpClientEvents['log']

interface Emitted<Name extends EventName> {
  readonly event: Name
  readonly payload: McpClientEvents[Name]
  readonly scope: SessionScope | undefined
}

/** Number of different warnings of one client that are shown without a listener. */
const MAX_SHOWN = 100

const NONE: readonly never[] = []

/**
 * Events of a client. A listener that throws or rejects is reported as `log`, and the other listeners still run. Without
 * a listener for `log`, each warning is once a warning of the process.
 */
export class ClientEvents {
  /** One list for all events and scopes: most clients have few listeners. */
  readonly #listeners: Listeners<Emitted<EventName>>
  readonly #root: ClientEvents
  readonly #scope: SessionScope | undefined
  /** The event of each listener. */
  #heard: readonly EventName[] = NONE
  #shown: Set<string> | undefined

  constructor(parent?: ClientEvents, scope?: SessionScope) {
    this.#scope = scope
    this.#root = parent === undefined ? this : parent.#root
    this.#listeners = parent === undefined ? this.#createListeners() : parent.#listeners
  }

  #createListeners(): Listeners<Emitted<EventName>> {
    return new Listeners((error, { event }) => {
      if (event === 'log') return // would call the failing listener again
      this.log('warning', `A listener of the event "${event}" failed`, error)
    })
  }

  /** Returns events for the session of one scope. They go to the same listeners. */
  forScope(scope: SessionScope | undefined): ClientEvents {
    return new ClientEvents(this, scope)
  }

  /** Returns a function that removes the listener. Calling it twice is harmless. */
  on<Name extends EventName>(
    event: Name,
    listener: (payload: McpClientEvents[Name], scope: SessionScope | undefined) => void,
  ): () => void {
    const remove = this.#listeners.add((emitted) =>
      isEvent(event, emitted) ? listener(emitted.payload, emitted.scope) : undefined,
    )
    const root = this.#root
    root.#heard = [...root.#heard, event]
    let isAdded = true
    return () => {
      if (!isAdded) return
      isAdded = false
      root.#heard = root.#heard.toSpliced(root.#heard.indexOf(event), 1)
      remove()
    }
  }

  /** False without a listener for an event: then an expensive payload need not be created. */
  hasListeners(event: EventName): boolean {
    return this.#root.#heard.includes(event)
  }

  emit<Name extends EventName>(event: Name, payload: McpClientEvents[Name]): void {
    this.#listeners.emit({ event, payload, scope: this.#scope })
  }

  log(level: LogEvent['level'], message: string, cause?: unknown): void {
    this.emit('log', { level, message, cause })
    if (level === 'warning' && !this.hasListeners('log')) this.#root.#show(message, cause)
  }

  #show(message: string, cause: unknown): void {
    const shown = (this.#shown ??= new Set<string>())
    const [reason, link] = splitErrorLink(cause instanceof Error ? cause.message : '')
    const [what, ownLink] = splitErrorLink(message)
    const why = what.includes(reason) ? '' : `: ${reason}`
    const text = `${what}${why}${link || ownLink}`
    if (shown.has(text) || shown.size >= MAX_SHOWN) return
    shown.add(text)
    process.emitWarning(text, { type: 'McpClientWarning' })
  }
}

function isEvent<Name extends EventName>(
  event: Name,
  emitted: Emitted<EventName>,
): emitted is Emitted<Name> {
  return emitted.event === event
}
