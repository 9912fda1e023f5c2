import type { McpClientEvents } from './client-options.ts'
import { Listeners } from './listeners.ts'
import type { SessionScope } from './session-scope.ts'

type EventName = keyof McpClientEvents

interface Told<Name extends EventName> {
  readonly event: Name
  readonly payload: McpClientEvents[Name]
  readonly scope: SessionScope | undefined
}

type LogEvent = McpClientEvents['log']

/** What a client tells, and to whom. A listener that fails is told on `log`, and disturbs nobody. */
export class ClientEvents {
  /** One list for all events: most clients have a listener or two. */
  readonly #listeners: Listeners<Told<EventName>>
  readonly #scope: SessionScope | undefined

  constructor(parent?: ClientEvents, scope?: SessionScope) {
    this.#scope = scope
    this.#listeners = parent === undefined ? this.#noListeners() : parent.#listeners
  }

  /** For what is told of the session of one scope, to the same listeners. */
  of(scope: SessionScope | undefined): ClientEvents {
    return new ClientEvents(this, scope)
  }

  #noListeners(): Listeners<Told<EventName>> {
    return new Listeners((error, { event }) => {
      if (event === 'log') return // there is nowhere left to say it
      this.log('warning', 'A listener of this client failed', error)
    })
  }

  /** Returns the undo function. */
  on<Name extends EventName>(
    event: Name,
    listener: (payload: McpClientEvents[Name], scope: SessionScope | undefined) => void,
  ): () => void {
    return this.#listeners.add((told) =>
      isOf(event, told) ? listener(told.payload, told.scope) : undefined,
    )
  }

  /** False if nobody listens to anything: then nothing need be made to be told. */
  get areHeard(): boolean {
    return !this.#listeners.isEmpty
  }

  emit<Name extends EventName>(event: Name, payload: McpClientEvents[Name]): void {
    this.#listeners.emit({ event, payload, scope: this.#scope })
  }

  log(level: LogEvent['level'], message: string, cause?: unknown): void {
    this.emit('log', { level, message, ...(cause === undefined ? {} : { cause }) })
  }
}

function isOf<Name extends EventName>(event: Name, told: Told<EventName>): told is Told<Name> {
  return told.event === event
}
