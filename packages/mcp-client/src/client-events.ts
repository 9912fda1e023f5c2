import type { McpClientEvents } from './client-options.ts'
import { Listeners } from './listeners.ts'

type LogEvent = McpClientEvents['log']

/** What a client tells, and to whom. A listener that fails is told on `log`, and disturbs nobody. */
export class ClientEvents {
  readonly #listeners: {
    readonly [Name in keyof McpClientEvents]: Listeners<McpClientEvents[Name]>
  }

  constructor() {
    const onError = (error: unknown): void => {
      this.log('warning', 'A listener of this client failed', error)
    }
    this.#listeners = {
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
    listener: (payload: McpClientEvents[Name]) => void,
  ): () => void {
    return this.#listeners[event].add(listener)
  }

  emit<Name extends keyof McpClientEvents>(event: Name, payload: McpClientEvents[Name]): void {
    this.#listeners[event].emit(payload)
  }

  log(level: LogEvent['level'], message: string, cause?: unknown): void {
    this.emit('log', { level, message, ...(cause === undefined ? {} : { cause }) })
  }
}
