// Requests of clients, honest and hostile ones.
import { connect } from 'node:net'
import { isRecord } from '@x/internal'
import {
  HANDSHAKE,
  inSession,
  JSON_HEADERS,
  modernParts,
} from '../../../packages/mcp-gateway/test/rpc-requests.ts'

export type Json = Readonly<Record<string, unknown>>
export type Fields = Readonly<Record<string, string>>

/** A response that was read to its end. */
export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The last message of JSON-RPC in it. Empty if there is none. */
  readonly message: Json
}

/** The address of a gateway. */
export interface Address {
  readonly url: string
  readonly port: number
}

export async function toAnswer(response: Response): Promise<Answer> {
  const { headers, status } = response
  const text = await response.text()
  return { status, headers, text, message: lastMessage(text) }
}

function lastMessage(text: string): Json {
  const data = text.split('\n').findLast((line) => line.startsWith('data: {'))
  const read = jsonOf(data?.slice('data: '.length) ?? text)
  return isRecord(read) ? read : {}
}

/** Returns the value of a text of JSON. `undefined` for other texts. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export function bearer(token: string | undefined): Fields {
  return token === undefined ? {} : { authorization: `Bearer ${token}` }
}

/** On a busy machine, a request on a connection that was not used for long could meet its end. */
const HEADERS = { ...JSON_HEADERS, connection: 'close' }

/** POSTs a body to the MCP endpoint. Text is sent as it is. */
export async function post(
  { url }: Pick<Address, 'url'>,
  body: unknown,
  headers: Fields = {},
): Promise<Answer> {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const init = { method: 'POST', headers: { ...HEADERS, ...headers }, body: text }
  return toAnswer(await fetch(url, init))
}

/** Parameters of a request, and who sends it. */
export type ModernRequest = Json & {
  readonly token?: string | undefined
  /** Aborts when the client leaves. */
  readonly signal?: AbortSignal | undefined
}

/** Sends a request of 2026-07-28. */
export async function modern(
  { url }: Pick<Address, 'url'>,
  method: string,
  { token, signal, ...params }: ModernRequest = {},
): Promise<Answer> {
  const { message, headers: own } = modernParts(method, params)
  const headers = { ...HEADERS, ...own, ...bearer(token) }
  const init = { method: 'POST', headers, body: JSON.stringify(message), signal: signal ?? null }
  return toAnswer(await fetch(url, init))
}

const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'
/** `_meta` of a client that shows forms. */
export const SHOWS_FORMS: Json = { [CAPABILITIES]: { elicitation: { form: {} } } }
/** `_meta` of a client that shows forms and knows tasks. */
export const KNOWS_TASKS: Json = {
  [CAPABILITIES]: {
    elicitation: { form: {} },
    extensions: { 'io.modelcontextprotocol/tasks': {} },
  },
}
/** The name of idempotency keys in `_meta`. */
export const KEY_NAME = 'io.github.x-mcp/idempotency-key'

export interface SessionOptions {
  readonly token?: string | undefined
  readonly capabilities?: Json | undefined
}

/** A client with a session. */
export class Session {
  readonly id: string
  readonly headers: Fields
  readonly #address: Pick<Address, 'url'>
  #lastId = 0

  private constructor(address: Pick<Address, 'url'>, id: string, headers: Fields) {
    this.id = id
    this.headers = headers
    this.#address = address
  }

  /** @throws Error without a session */
  static async open(
    address: Pick<Address, 'url'>,
    { token, capabilities = {} }: SessionOptions = {},
  ): Promise<Session> {
    const params = { ...HANDSHAKE, capabilities }
    const { headers, status, text } = await initialize(address, params, bearer(token))
    const id = headers.get('mcp-session-id')
    if (id === null) throw new Error(`No session: ${status} ${text}`)
    const session = new Session(address, id, inSession(id, bearer(token)))
    await session.send({ method: 'notifications/initialized' })
    return session
  }

  /** Sends a message as it is, but for `jsonrpc`. */
  send(message: Json, headers: Fields = {}): Promise<Answer> {
    return post(this.#address, { jsonrpc: '2.0', ...message }, { ...this.headers, ...headers })
  }

  ask(method: string, params: Json = {}): Promise<Answer> {
    return this.send({ id: ++this.#lastId, method, params })
  }

  /** Sends a request, and returns its response without reading it. @param signal aborts when the client leaves */
  stream(message: Json, signal?: AbortSignal): Promise<Response> {
    const headers = { ...HEADERS, ...this.headers }
    const body = JSON.stringify({ jsonrpc: '2.0', ...message })
    return fetch(this.#address.url, { method: 'POST', headers, body, signal: signal ?? null })
  }

  /** Opens a stream without reading it. */
  listen(headers: Fields = {}): Promise<Response> {
    const all = { ...this.headers, accept: 'text/event-stream', ...headers }
    return fetch(this.#address.url, { headers: all })
  }

  async end(): Promise<number> {
    const init = { method: 'DELETE', headers: this.headers }
    return (await toAnswer(await fetch(this.#address.url, init))).status
  }
}

export function initialize(
  address: Pick<Address, 'url'>,
  params: unknown = HANDSHAKE,
  headers: Fields = {},
): Promise<Answer> {
  return post(address, { jsonrpc: '2.0', id: 0, method: 'initialize', params }, headers)
}

/** Returns the first text of a result. */
export function textOf({ message }: Pick<Answer, 'message'>): string {
  const { result } = message
  const content = isRecord(result) ? result['content'] : undefined
  const first: unknown = Array.isArray(content) ? content[0] : undefined
  return isRecord(first) && typeof first['text'] === 'string' ? first['text'] : ''
}

/** Returns a field of the result, or of the error, by its names from the outside in. */
export function at({ message }: Pick<Answer, 'message'>, ...path: readonly string[]): unknown {
  let value: unknown = message
  for (const name of path) value = isRecord(value) ? value[name] : undefined
  return value
}

/** Returns `_meta.reason` of a result. */
export function reasonOf(answer: Pick<Answer, 'message'>): unknown {
  return at(answer, 'result', '_meta', 'reason')
}

/** Sends a request on a connection of its own, and returns everything that comes back until its end. */
export function wire(port: number, request: string | Raw): Promise<string> {
  const text = typeof request === 'string' ? request : rawRequest(request)
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(text, 'latin1'))
    let answer = ''
    socket.setEncoding('latin1')
    socket.on('data', (piece: string) => (answer += piece))
    socket.on('error', () => undefined) // the gateway may reset the connection
    socket.on('close', () => resolve(answer))
  })
}

/** Head and body of an HTTP request, to the letter. Each character is a byte. */
export interface Raw {
  /** @default `POST /mcp HTTP/1.1` */
  readonly line?: string
  /** Lines, without the length of the body. */
  readonly headers?: readonly string[]
  readonly body?: string
  /** Header line that tells the length. @default the right `Content-Length` */
  readonly length?: string
}

function rawRequest({
  line = 'POST /mcp HTTP/1.1',
  headers = ['Host: localhost'],
  body = '',
  length = `Content-Length: ${Buffer.byteLength(body, 'latin1')}`,
}: Raw): string {
  const fixed = ['Content-Type: application/json', 'Accept: application/json, text/event-stream']
  const given = new Set(headers.map((header) => header.split(':')[0]?.toLowerCase()))
  const lines = [
    line,
    ...headers,
    ...fixed.filter((header) => !given.has(header.split(':')[0]?.toLowerCase())),
    ...(length === '' ? [] : [length]),
    'Connection: close',
  ]
  return `${lines.join('\r\n')}\r\n\r\n${body}`
}

/** Status of the first answer on a connection. 0: it was closed without one. */
export function statusIn(answer: string): number {
  return Number(/^HTTP\/1\.\d (\d{3})/.exec(answer)?.[1] ?? 0)
}
