// The controls: what any client costs that sends a request with undici and parses the answer.
import { createParser } from 'eventsource-parser'
import { Agent, request } from 'undici'
import type { Dispatcher } from 'undici'
import type { Contender } from './contenders.ts'
import {
  ARGS,
  checkResult,
  CLIENT_INFO,
  isModern,
  MODERN_META,
  MODERN_VERSION,
  PROTOCOL_VERSION,
  TOOL,
} from './messages.ts'

const PLAIN = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
}

/** The parts that all calls of a contender share. */
interface Prepared {
  readonly headers: Readonly<Record<string, string>>
  readonly params: object
}

/** Prepares calls that send the same bytes as our transport. Opens a session where the server has them. */
async function prepared(url: string, dispatcher: Agent): Promise<Prepared> {
  const params = { name: TOOL, arguments: ARGS }
  if (isModern(url)) {
    const headers = { 'mcp-protocol-version': MODERN_VERSION, 'mcp-method': 'tools/call' }
    return {
      headers: { ...PLAIN, ...headers, 'mcp-name': TOOL },
      params: { ...params, _meta: MODERN_META },
    }
  }
  const handshake = { protocolVersion: PROTOCOL_VERSION, capabilities: {}, clientInfo: CLIENT_INFO }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params: handshake })
  const opened = await request(url, { dispatcher, method: 'POST', headers: PLAIN, body })
  await opened.body.dump()
  const session = String(opened.headers['mcp-session-id'])
  const headers = { 'mcp-session-id': session, 'mcp-protocol-version': PROTOCOL_VERSION }
  return { headers: { ...PLAIN, ...headers }, params }
}

function callOf(id: number, params: object): string {
  return JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params })
}

function newAgent(): Agent {
  return new Agent({ allowH2: false, headersTimeout: 0, bodyTimeout: 0 })
}

export async function undiciRequest(url: string): Promise<Contender> {
  const dispatcher = newAgent()
  const { headers, params } = await prepared(url, dispatcher)
  let id = 0
  return {
    async call() {
      const body = callOf(++id, params)
      const response = await request(url, { dispatcher, method: 'POST', headers, body })
      const text = await response.body.text()
      let data = text
      if (response.headers['content-type'] === 'text/event-stream') {
        createParser({ onEvent: (event) => (data = event.data) }).feed(text)
      }
      checkResult(JSON.parse(data).result)
    },
    [Symbol.asyncDispose]: () => dispatcher.destroy(),
  }
}

export async function bareDispatch(url: string): Promise<Contender> {
  const agent = newAgent()
  const { headers, params } = await prepared(url, agent)
  const list = Object.entries(headers).flat()
  const { origin, pathname: path } = new URL(url)
  let id = 0
  return {
    call: () =>
      new Promise((resolve, reject) => {
        const handler = new AnswerHandler(resolve, reject)
        const body = callOf(++id, params)
        agent.dispatch({ origin, path, method: 'POST', headers: list, body }, handler)
      }),
    [Symbol.asyncDispose]: () => agent.destroy(),
  }
}

class AnswerHandler implements Dispatcher.DispatchHandler {
  readonly #resolve: () => void
  readonly #reject: (error: Error) => void
  readonly #chunks: Buffer[] = []
  #feed: ((chunk: Buffer) => void) | undefined
  #data = ''

  constructor(resolve: () => void, reject: (error: Error) => void) {
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
    const parser = createParser({ onEvent: ({ data }) => (this.#data = data) })
    this.#feed = (chunk) => parser.feed(decoder.decode(chunk, { stream: true }))
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#feed === undefined) this.#chunks.push(chunk)
    else this.#feed(chunk)
  }

  onResponseEnd(): void {
    const [only] = this.#chunks
    const body =
      this.#chunks.length === 1 && only !== undefined ? only : Buffer.concat(this.#chunks)
    const text = this.#feed === undefined ? body.toString() : this.#data
    try {
      checkResult(JSON.parse(text).result)
      this.#resolve()
    } catch (error) {
      this.#reject(error as Error)
    }
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#reject(error)
  }
}
