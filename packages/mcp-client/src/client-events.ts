import type { McpClientEvents } from './client-options.ts'
import { Listeners } from './listeners.ts'
import type { SessionScope } from './session-scope.ts'

interface Told<Payload> {
  readonly payload: Payload
  readonly scope: SessionScope | undefined
}

type EventListeners = {
  readonly [Name in keyof McpClientEvents]: Listeners<Told<McpClientEvents[Name]>>
}

type LogEvent = McpClientEvents['log']

/** What a client tells, and to whom. A listener that fails is told on `log`, and disturbs nobody. */
export class ClientEvents {
  readonly #listeners: EventListeners
  readonly #scope: SessionScope | undefined

  constructor(parent?: ClientEvents, scope?: SessionScope) {
    this.#scope = scope
    this.#listeners = parent === undefined ? this.#noListeners() : parent.#listeners
  }

  /** For what is told of the session of one scope, to the same listeners. */
  of(scope: SessionScope | undefined): ClientEvents {
    return new ClientEvents(this, scope)
  }

  #noListeners(): EventListeners {
    const onError = (error: unknown): void => {
      this.log('warning', 'A listener of this client failed', error)
    }
    return {
      state: new Listeners(onError),
      sessionReplaced: new Listeners(onError),
      toolsChanged: new Listeners(onError),
      log: new Listeners(() => {}), // there is nowhere left to say it
      exchange: new Listeners(onError),
      promptsChanged: new Listeners(onError),
      resourcesChanged: new Listeners(onError),
      resourceUpdated: new Listeners(onError),
      serverLog: new Listeners(onError),
    }
  }

  /** Returns the undo function. */
  on<Name extends keyof McpClientEvents>(
    event: Name,
    listener: (payload: McpClientEvents[Name], scope: SessionScope | undefined) => void,
  ): () => void {
    return this.#listeners[event].add(({ payload, scope }) => listener(payload, scope))
  }

  emit<Name extends keyof McpClientEvents>(event: Name, payload: McpClientEvents[Name]): void {
    this.#listeners[event].emit({ payload, scope: this.#scope })
  }

  log(level: LogEvent['level'], message: string, cause?: unknown): void {
    this.emit('log', { level, message, ...(cause === undefined ? {} : { cause }) })
  }
}
