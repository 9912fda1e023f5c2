import type { McpClientEvents } from './client-options.ts'
import type { SessionScope } from './session-scope.ts'

type EventName = keyof McpClientEvents
type LogEvent = McpClientEvents['log']

interface Emitted<Name extends EventName> {
  readonly event: Name
  readonly payload: McpClientEvents[Name]
  readonly scope: SessionScope | undefined
}

type Listener = (emitted: Emitted<EventName>) => unknown

/** The listeners of a client and of all its sessions. */
interface ListenerList {
  /** Replaced on every change, so that `emit()` can go through it without a copy. */
  all: readonly Listener[]
}

const NO_LISTENERS: readonly Listener[] = []

/** Events of a client. A listener that throws or rejects is reported as `log`, and the other listeners still run. */
export class ClientEvents {
  readonly #list: ListenerList
  readonly #scope: SessionScope | undefined

  constructor(parent?: ClientEvents, scope?: SessionScope) {
    this.#list = parent === undefined ? { all: NO_LISTENERS } : parent.#list
    this.#scope = scope
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
    // A new function for each call, because the same listener may be added twice.
    const added: Listener = (emitted) =>
      isEvent(event, emitted) ? listener(emitted.payload, emitted.scope) : undefined
    this.#list.all = [...this.#list.all, added]
    return () => {
      this.#list.all = this.#list.all.filter((each) => each !== added)
    }
  }

  /** False if there are no listeners: then an expensive payload need not be created. */
  get hasListeners(): boolean {
    return this.#list.all.length > 0
  }

  emit<Name extends EventName>(event: Name, payload: McpClientEvents[Name]): void {
    for (const listener of this.#list.all) {
      try {
        const result = listener({ event, payload, scope: this.#scope })
        if (result instanceof Promise) {
          result.catch((error: unknown) => this.#listenerFailed(event, error))
        }
      } catch (error) {
        this.#listenerFailed(event, error)
      }
    }
  }

  log(level: LogEvent['level'], message: string, cause?: unknown): void {
    this.emit('log', { level, message, ...(cause === undefined ? {} : { cause }) })
  }

  #listenerFailed(event: EventName, error: unknown): void {
    if (event === 'log') return // would call the failing listener again
    this.log('warning', `A listener of the event "${event}" failed`, error)
  }
}

function isEvent<Name extends EventName>(
  event: Name,
  emitted: Emitted<EventName>,
): emitted is Emitted<Name> {
  return emitted.event === event
}
