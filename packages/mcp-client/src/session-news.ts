import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { ClientEvents } from './client-events.ts'
import type { ServerLog, ServerNews } from './server-news.ts'
import type { SessionCalls } from './session-calls.ts'
import type { ToolList } from './operations/tool-list.ts'

/** Hands on what the server says: to the list of tools, and to whoever listens to the client. */
export class SessionNews implements ServerNews {
  readonly #server: string
  readonly #events: ClientEvents
  readonly #tools: ToolList
  readonly #calls: SessionCalls | undefined

  constructor(about: {
    readonly server: string
    readonly events: ClientEvents
    readonly tools: ToolList
    readonly calls: SessionCalls | undefined
  }) {
    this.#server = about.server
    this.#events = about.events
    this.#tools = about.tools
    this.#calls = about.calls
  }

  /** What was known of the server is of another session. */
  sessionOpened(): void {
    this.#tools.invalidate()
  }

  toolsChanged(): void {
    this.#tools.invalidate()
    this.#events.emit('toolListChanged', { server: this.#server })
  }

  promptsChanged(): void {
    this.#events.emit('promptsChanged', { server: this.#server })
  }

  resourcesChanged(): void {
    this.#events.emit('resourcesChanged', { server: this.#server })
  }

  resourceUpdated(uri: string): void {
    this.#events.emit('resourceUpdated', { uri })
  }

  logged(message: ServerLog, client: Client): void {
    const origin = this.#calls?.originOf(client)
    this.#events.emit('serverLog', origin === undefined ? message : { ...message, origin })
  }
}
