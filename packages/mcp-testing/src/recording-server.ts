import type { IncomingMessage, ServerResponse } from 'node:http'
import type { TestServer } from './loopback-server.ts'
import { startTestServer } from './loopback-server.ts'
import type { Recording, WaitForOptions } from './recording.ts'

/** Base of the MCP servers and the proxy: a recording of requests, and rules that act on some of them. */
export abstract class RecordingServer<
  Entry,
  Rule extends { readonly times?: number | undefined },
> implements AsyncDisposable {
  readonly #recording: Recording<Entry>
  readonly #rules = new Set<{ readonly rule: Rule; left: number }>()
  #http: TestServer | undefined

  constructor(recording: Recording<Entry>) {
    this.#recording = recording
  }

  /** Listens. Called once, by the function that starts the server. */
  async start(path = '/mcp'): Promise<void> {
    const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
      this.handle(request, response).catch((error: unknown) => {
        request.socket.destroy()
        throw error // a callback of the test is wrong: the test must fail
      })
    }
    this.#http = await startTestServer(onRequest, { path })
  }

  /** On 127.0.0.1. */
  get url(): string {
    return this.server.url
  }

  /** TCP connections of clients so far. */
  get connections(): number {
    return this.server.connections
  }

  /** The first entry that matches, past ones included. Looks again when an answer changes or ends. */
  waitFor(matches: (entry: Entry) => boolean, options?: WaitForOptions): Promise<Entry> {
    return this.#recording.waitFor(matches, options)
  }

  /** Adds a rule; of those that match, the oldest acts. Returns a function that removes it. */
  inject(rule: Rule): () => void {
    const active = { rule, left: rule.times ?? this.defaultTimes }
    if (active.left > 0) this.#rules.add(active)
    return () => void this.#rules.delete(active)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server[Symbol.asyncDispose]()
    this.#recording.close()
  }

  /** How often a rule without `times` acts. */
  protected abstract readonly defaultTimes: number

  protected abstract handle(request: IncomingMessage, response: ServerResponse): Promise<void>

  protected get server(): TestServer {
    if (this.#http === undefined) throw new TypeError('Not started')
    return this.#http
  }

  /** The oldest rule that matches. Counts its use. */
  protected ruleFor(matches: (rule: Rule) => boolean): Rule | undefined {
    for (const active of this.#rules) {
      if (!matches(active.rule)) continue
      if (--active.left <= 0) this.#rules.delete(active)
      return active.rule
    }
    return undefined
  }
}
