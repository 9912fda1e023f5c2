// An HTTP/1.1 client for load. It is written by hand, because a real client costs more than the servers that are
// measured. Each character of a text stands for one byte.
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Socket } from 'node:net'

/** The parts of an answer that are checked. */
export interface Answer {
  readonly status: number
  /** `Mcp-Session-Id` header. */
  readonly session: string | undefined
  readonly body: string
}

const LENGTH = /\r\ncontent-length: *(\d+) *\r\n/i
const CHUNKED = /\r\ntransfer-encoding: *chunked *\r\n/i
const SESSION = /\r\nmcp-session-id: *([^\r]+?) *\r\n/i

/**
 * Parses one whole answer, with a length or in chunks. Returns `undefined` while more has to come.
 *
 * @throws Error for anything else, and for more than one answer.
 */
export function parseAnswer(text: string): Answer | undefined {
  const end = text.indexOf('\r\n\r\n')
  if (end === -1) return undefined
  const head = text.slice(0, end + 2)
  if (!head.startsWith('HTTP/1.1 ')) throw new Error(`Not an HTTP answer: ${head.slice(0, 40)}`)
  const status = Number(head.slice(9, 12))
  const rest = text.slice(end + 4)
  const body = CHUNKED.test(head) ? chunksFrom(rest) : sizedFrom(rest, status, head)
  if (body === undefined) return undefined
  return { status, session: SESSION.exec(head)?.[1], body }
}

function sizedFrom(body: string, status: number, head: string): string | undefined {
  const bytes = status === 204 ? 0 : Number(LENGTH.exec(head)?.[1] ?? Number.NaN)
  if (Number.isNaN(bytes)) throw new Error(`The answer with ${status} has no length`)
  if (body.length > bytes) throw new Error(`The answer with ${status} is longer than its length`)
  return body.length < bytes ? undefined : body
}

function chunksFrom(text: string): string | undefined {
  let body = ''
  for (let at = 0; ;) {
    const line = text.indexOf('\r\n', at)
    if (line === -1) return undefined
    const bytes = Number.parseInt(text.slice(at, line), 16)
    if (Number.isNaN(bytes)) throw new Error('The answer has a chunk without a length')
    const next = line + 2 + bytes + 2
    if (text.length < next) return undefined
    if (bytes === 0) {
      if (text.length > next) throw new Error('The answer goes on after its last chunk')
      return body
    }
    body += text.slice(line + 2, next - 2)
    at = next
  }
}

interface PendingRequest {
  readonly resolve: (answer: Answer) => void
  readonly reject: (error: Error) => void
}

/** A kept-alive connection with one request in flight. */
export class Connection {
  readonly #socket: Socket
  #received = ''
  #pending: PendingRequest | undefined

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.setEncoding('latin1')
    socket.on('data', (text: string) => this.#read(text))
    socket.on('error', (error) => this.#pending?.reject(error))
    socket.on('close', () => this.#pending?.reject(new Error('The server closed a connection')))
  }

  static async open(port: number): Promise<Connection> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    await once(socket, 'connect')
    return new Connection(socket)
  }

  /** Sends a whole request. */
  request(text: string): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed) return reject(new Error('The server closed a connection'))
      this.#pending = { resolve, reject }
      this.#socket.write(text, 'latin1')
    })
  }

  async close(): Promise<void> {
    this.#pending = undefined
    if (this.#socket.destroyed) return
    const closed = once(this.#socket, 'close')
    this.#socket.destroy()
    await closed
  }

  #read(text: string): void {
    const received = this.#received + text
    try {
      const answer = parseAnswer(received)
      this.#received = answer === undefined ? received : ''
      if (answer !== undefined) this.#pending?.resolve(answer)
    } catch (error) {
      this.#pending?.reject(error instanceof Error ? error : new Error(String(error)))
    }
  }
}

/** Runs `work` so many times on `connections` new connections, one at a time on each. */
export async function onConnections(
  { port, connections, times }: { port: number; connections: number; times: number },
  work: (connection: Connection, turn: number) => Promise<void>,
): Promise<void> {
  const opened = await Promise.all(Array.from({ length: connections }, () => Connection.open(port)))
  try {
    let next = 0
    await Promise.all(
      opened.map(async (connection) => {
        while (next < times) await work(connection, next++)
      }),
    )
  } finally {
    await Promise.all(opened.map((connection) => connection.close()))
  }
}
