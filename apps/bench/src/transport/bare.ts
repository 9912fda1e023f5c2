import { createParser } from 'eventsource-parser'
import { Agent } from 'undici'
import type { Dispatcher } from 'undici'
import type { Contender, Notification, Request } from './contender.ts'
import { isObject, PROTOCOL_VERSION, SESSION_ID } from './messages.ts'

/**
 * What no client can do without: one `dispatch`, and the parsing of what comes back. No session, no
 * errors, no limits, no cancelling. The control of every comparison.
 */
export class Bare implements Contender {
  readonly #agent = new Agent({ allowH2: false, headersTimeout: 0, bodyTimeout: 0 })
  readonly #origin: string
  readonly #path: string
  readonly #headers = Object.entries({
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-session-id': SESSION_ID,
    'mcp-protocol-version': PROTOCOL_VERSION,
  }).flat()

  constructor(url: string) {
    const { origin, pathname } = new URL(url)
    this.#origin = origin
    this.#path = pathname
  }

  async open(): Promise<void> {}

  call(request: Request, onMessage: (message: unknown) => void = () => {}): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#dispatch(request, new AnswerHandler(onMessage, resolve, reject))
    })
  }

  notify(notification: Notification): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#dispatch(notification, {
        onRequestStart() {},
        onResponseData() {},
        onResponseEnd: () => resolve(),
        onResponseError: (_controller, error) => reject(error),
      })
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#agent.destroy()
  }

  #dispatch(message: object, handler: Dispatcher.DispatchHandler): void {
    const request = { origin: this.#origin, path: this.#path, method: 'POST' } as const
    const body = JSON.stringify(message)
    this.#agent.dispatch({ ...request, headers: this.#headers, body }, handler)
  }
}

class AnswerHandler implements Dispatcher.DispatchHandler {
  readonly #onMessage: (message: unknown) => void
  readonly #resolve: (answer: unknown) => void
  readonly #reject: (error: Error) => void
  readonly #chunks: Buffer[] = []
  #feed: ((chunk: Buffer) => void) | undefined
  #answer: unknown

  constructor(
    onMessage: (message: unknown) => void,
    resolve: (answer: unknown) => void,
    reject: (error: Error) => void,
  ) {
    this.#onMessage = onMessage
    this.#resolve = resolve
    this.#reject = reject
  }

  onRequestStart(): void {}

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    _status: number,
    headers: Readonly<Record<string, string | string[] | undefined>>,
  ): void {
    if (headers['content-type'] !== 'text/event-stream') return
    const decoder = new TextDecoder()
    const parser = createParser({ onEvent: ({ data }) => this.#event(JSON.parse(data)) })
    this.#feed = (chunk) => parser.feed(decoder.decode(chunk, { stream: true }))
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#feed === undefined) this.#chunks.push(chunk)
    else this.#feed(chunk)
  }

  onResponseEnd(): void {
    if (this.#feed === undefined) {
      const [only] = this.#chunks
      const body = this.#chunks.length === 1 && only ? only : Buffer.concat(this.#chunks)
      this.#answer = JSON.parse(body.toString('utf8'))
    }
    this.#resolve(this.#answer)
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#reject(error)
  }

  #event(message: unknown): void {
    if (isObject(message) && 'id' in message) this.#answer = message
    else this.#onMessage(message)
  }
}
