import { Agent } from 'undici'

const acceptBoth = 'application/json, text/event-stream'

/** A response to the raw client. */
export interface RawAnswer {
  readonly status: number
  readonly sessionId: string | undefined
  readonly type: string | undefined
  readonly text: () => Promise<string>
  /** The body in pieces, as they arrive. */
  readonly chunks: AsyncIterator<string>
  /** Closes the connection before the end. */
  readonly leave: () => void
}

/** Sends requests over one connection, exactly as the test gives them. */
export class RawClient implements AsyncDisposable {
  readonly #url: URL
  readonly #agent = new Agent({ connections: 1, allowH2: false })
  readonly #streams = new Agent({ allowH2: false })
  /** Session id in all requests except `initialize`. */
  sessionId: string | undefined
  /** Headers in all requests. */
  headers: Readonly<Record<string, string>> = {}

  constructor(url: string) {
    this.#url = new URL(url)
  }

  async initialize(protocolVersion = '2025-11-25'): Promise<RawAnswer> {
    this.sessionId = undefined
    const params = { protocolVersion, capabilities: {}, clientInfo: { name: 'raw', version: '1' } }
    const answer = await this.post({ method: 'initialize', id: 0, params })
    if (answer.status === 200) this.sessionId = answer.sessionId
    return answer
  }

  call(name: string, args: Record<string, unknown> = {}, id = 1): Promise<RawAnswer> {
    return this.post({ method: 'tools/call', id, params: { name, arguments: args } })
  }

  post(message: Record<string, unknown>): Promise<RawAnswer> {
    return this.#send(
      'POST',
      { accept: acceptBoth, 'content-type': 'application/json' },
      JSON.stringify({ jsonrpc: '2.0', ...message }),
    )
  }

  get(lastEventId?: string): Promise<RawAnswer> {
    const resume = lastEventId === undefined ? {} : { 'last-event-id': lastEventId }
    return this.#send('GET', { accept: 'text/event-stream', ...resume })
  }

  delete(): Promise<RawAnswer> {
    return this.#send('DELETE', {})
  }

  async #send(
    method: 'GET' | 'POST' | 'DELETE',
    headers: Record<string, string>,
    body?: string,
  ): Promise<RawAnswer> {
    const session = this.sessionId === undefined ? {} : { 'mcp-session-id': this.sessionId }
    const response = await (method === 'GET' ? this.#streams : this.#agent).request({
      origin: this.#url.origin,
      path: this.#url.pathname,
      method,
      headers: { ...headers, ...session, ...this.headers },
      body: body ?? null,
    })
    const header = (name: string): string | undefined => {
      const value = response.headers[name]
      return typeof value === 'string' ? value : undefined
    }
    return {
      status: response.statusCode,
      sessionId: header('mcp-session-id'),
      type: header('content-type'),
      text: () => response.body.text(),
      chunks: response.body.setEncoding('utf8')[Symbol.asyncIterator]() as AsyncIterator<string>,
      leave: () => {
        response.body.on('error', () => {})
        response.body.destroy()
      },
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#agent.destroy(), this.#streams.destroy()])
  }
}
