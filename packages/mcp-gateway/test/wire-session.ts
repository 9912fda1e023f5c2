import {
  eventsOf,
  HANDSHAKE,
  inSession,
  JSON_HEADERS,
  OPENING,
  type ReadEvent,
} from './rpc-requests.ts'

export interface WireSessionOptions {
  readonly token?: string
  readonly capabilities?: object
}

/** A client with a session that sends each HTTP request to the process that the test names. */
export class WireSession {
  /** Headers of its requests. */
  readonly headers: Readonly<Record<string, string>>

  private constructor(headers: Readonly<Record<string, string>>) {
    this.headers = headers
  }

  static async open(url: string, options: WireSessionOptions = {}): Promise<WireSession> {
    const { token = 'token-of-ada-0123456789', capabilities = {} } = options
    const headers = { ...JSON_HEADERS, authorization: `Bearer ${token}` }
    const [initialize, initialized] = OPENING
    const body = JSON.stringify({ ...initialize, params: { ...HANDSHAKE, capabilities } })
    const response = await fetch(url, { method: 'POST', headers, body })
    const text = await response.text()
    const id = response.headers.get('mcp-session-id')
    if (id === null) throw new Error(`No session: ${response.status} ${text}`)
    const session = new WireSession({
      ...headers,
      ...inSession(id),
    })
    await session.post(url, initialized)
    return session
  }

  post(
    url: string,
    message: object,
    over: Readonly<Record<string, string>> = {},
  ): Promise<Response> {
    const headers = { ...this.headers, ...over }
    return fetch(url, { method: 'POST', headers, body: JSON.stringify(message) })
  }

  /** Sends a request with one answer. @returns the status, and the last message */
  async ask(
    url: string,
    message: object,
    over = {},
  ): Promise<{ status: number; message: Message }> {
    const response = await this.post(url, message, over)
    return { status: response.status, message: lastMessage(await response.text()) }
  }

  call(url: string, id: number, name: string): Promise<Response> {
    const params = { name, arguments: { message: 'Go' }, _meta: { progressToken: id } }
    return this.post(url, { jsonrpc: '2.0', id, method: 'tools/call', params })
  }

  listen(url: string, lastEventId?: string): Promise<Response> {
    const last = lastEventId === undefined ? {} : { 'last-event-id': lastEventId }
    return fetch(url, { headers: { ...this.headers, accept: 'text/event-stream', ...last } })
  }

  async end(url: string): Promise<number> {
    const response = await fetch(url, { method: 'DELETE', headers: this.headers })
    await response.text()
    return response.status
  }
}

export interface Message {
  readonly id?: unknown
  readonly method?: string
  readonly params?: Readonly<Record<string, unknown>>
  readonly result?: Readonly<Record<string, unknown>>
  readonly error?: { readonly code: number; readonly message: string }
}

function lastMessage(text: string): Message {
  if (text.startsWith('{')) return JSON.parse(text) as Message
  const data = text
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .at(-1)
  return JSON.parse(data?.slice(6) ?? '{}') as Message
}

/** Reads the events of a stream. */
export class EventReader {
  readonly #events: AsyncGenerator<ReadEvent>
  lastId = ''
  readonly read: Message[] = []

  constructor(response: Response) {
    this.#events = eventsOf(response)
  }

  /** Reads up to the first message for which `isIt` returns true. The stream stays open. @throws if it ends before */
  async until(isIt: (message: Message) => boolean): Promise<Message> {
    for (;;) {
      const { done, value } = await this.#events.next()
      if (done) throw new Error(`The stream ended after ${JSON.stringify(this.read)}`)
      this.lastId = value.id ?? this.lastId
      if (value.data === '') continue
      const message = JSON.parse(value.data) as Message
      this.read.push(message)
      if (isIt(message)) return message
    }
  }

  /** Reads until the end of the stream, also if the connection breaks. */
  async rest(): Promise<readonly Message[]> {
    try {
      await this.until(() => false)
    } catch {
      // the end
    }
    return this.read
  }

  /** Closes the connection. */
  async leave(): Promise<void> {
    await this.#events.return(undefined)
  }
}
