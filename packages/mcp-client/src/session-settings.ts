import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { EmptyResultSchema } from '@modelcontextprotocol/sdk/types.js'
import type { LoggingLevel } from '@modelcontextprotocol/sdk/types.js'

/** What the caller has told the server, and a new session does not know. */
export class SessionSettings {
  #level: LoggingLevel | undefined
  #uris: Set<string> | undefined

  set level(level: LoggingLevel) {
    this.#level = level
  }

  subscribed(uri: string): void {
    this.#uris ??= new Set()
    this.#uris.add(uri)
  }

  unsubscribed(uri: string): void {
    this.#uris?.delete(uri)
  }

  clear(): void {
    this.#level = undefined
    this.#uris = undefined
  }

  /** Tells it again. Rejects with the first thing that the server refused. */
  async restore(
    client: Client,
    request: { readonly signal: AbortSignal; readonly timeout: number },
  ): Promise<void> {
    const tell = (method: string, params: Record<string, unknown>): Promise<unknown> =>
      client.request({ method, params }, EmptyResultSchema, request)
    await Promise.all([
      ...(this.#level === undefined ? [] : [tell('logging/setLevel', { level: this.#level })]),
      ...[...(this.#uris ?? [])].map((uri) => tell('resources/subscribe', { uri })),
    ])
  }
}
