import type { ServerResponse } from 'node:http'

import { EventStream, type EventSink } from '../mcp/event-stream.ts'
import { headersOf, type Reply } from '../mcp/reply.ts'
import type { UnreadBytes, UnreadReply } from './unread-bytes.ts'

export interface ReplyWriting {
  /** Headers that the connection needs. */
  readonly headers: Readonly<Record<string, string>> | undefined
  /** For whom the bytes that wait for the client are counted (see `accountOf()`). */
  readonly account: string
  readonly unread: UnreadBytes
}

/** Larger bodies are written in slices of this size: other requests are served between two slices. */
const SLICE_BYTES = 65_536

/** Events that are there in one turn are sent with the head, up to this number of characters. */
const MAX_GATHERED = 16_384

/**
 * Writes a reply, no faster than the client reads. Events are an exception: they come whether the client reads or not,
 * and end the connection when too many of them wait.
 *
 * @returns a promise if the writing ends later
 */
export function writeReply(
  outgoing: ServerResponse,
  reply: Reply,
  { headers: own, ...counted }: ReplyWriting,
): Promise<void> | undefined {
  const { body, status } = reply
  const headers: Record<string, string | number> = headersOf(reply)
  // The server decides about the connection. Transports of MCP always say `keep-alive`.
  delete headers['connection']
  if (own) Object.assign(headers, own)
  const head = { status, headers, ...counted }
  if (body instanceof EventStream) {
    outgoing.on('close', () => body.lose())
    if (outgoing.destroyed) body.lose()
    else body.connect(new NodeEvents(outgoing, head))
    return undefined
  }
  if (body === undefined || typeof body === 'string') {
    return writeText(outgoing, body, head)
  }
  return writeResponse(outgoing, body, head)
}

interface Head extends Omit<ReplyWriting, 'headers'> {
  readonly status: number
  readonly headers: Record<string, string | number>
}

function writeText(
  outgoing: ServerResponse,
  text: string | Uint8Array | undefined,
  head: Head,
): Promise<void> | undefined {
  const { headers, status } = head
  const size = text === undefined ? 0 : Buffer.byteLength(text)
  if (text !== undefined || status === 202) headers['content-length'] = size
  outgoing.writeHead(status, headers)
  if (size <= SLICE_BYTES) {
    outgoing.end(text)
    return undefined
  }
  const writer = new NodeWriter(outgoing, head)
  writer.write(text ?? '')
  return Promise.resolve(writer.waiting).then(() => void outgoing.end())
}

/** Writes the response of a library, or a file. */
async function writeResponse(
  outgoing: ServerResponse,
  response: Response,
  head: Head,
): Promise<void> {
  const { headers, status } = head
  if (headers['content-type'] === 'application/json' && !('content-length' in headers)) {
    const text = new Uint8Array(await response.arrayBuffer())
    return writeText(outgoing, text, head)
  }
  const reader = response.body?.getReader()
  const cancel = (): void => void reader?.cancel().catch(() => undefined)
  if (outgoing.destroyed) return cancel()
  outgoing.writeHead(status, headers)
  outgoing.on('close', cancel)
  const writer = new NodeWriter(outgoing, head)
  try {
    for (;;) {
      const { done, value } = (await reader?.read()) ?? { done: true }
      if (done || !value) break
      writer.write(value)
      await writer.room()
      if (outgoing.destroyed) return
    }
    outgoing.end()
  } catch {
    outgoing.destroy() // the client must not take the part for the whole
  }
}

/** Writes to a connection while its client reads. Bytes that wait are kept here, and are counted. */
class NodeWriter {
  readonly #outgoing: ServerResponse
  readonly #counted: Pick<ReplyWriting, 'account' | 'unread'>
  readonly #queue: Uint8Array[] = []
  #reply: UnreadReply | undefined
  #waiting: Promise<void> | undefined

  constructor(outgoing: ServerResponse, counted: Pick<ReplyWriting, 'account' | 'unread'>) {
    this.#outgoing = outgoing
    this.#counted = counted
  }

  /** Resolves when no bytes wait, or the client has left. `undefined`: no bytes wait. */
  get waiting(): Promise<void> | undefined {
    return this.#waiting
  }

  /** Resolves when the client can take more, or has left. `undefined`: it can take more now. */
  room(): Promise<void> | undefined {
    return this.#waiting ?? (this.#outgoing.writableNeedDrain ? drained(this.#outgoing) : undefined)
  }

  write(data: string | Uint8Array): void {
    const outgoing = this.#outgoing
    if (outgoing.destroyed) return
    const size = Buffer.byteLength(data)
    if (!this.#waiting && size <= SLICE_BYTES && !outgoing.writableNeedDrain) {
      outgoing.write(data)
      return
    }
    const { account, unread } = this.#counted
    this.#reply ??= { account, end: () => outgoing.destroy(), takenAt: 0, held: 0 }
    if (!unread.add(this.#reply, size)) return
    this.#queue.push(typeof data === 'string' ? Buffer.from(data) : data)
    this.#waiting ??= this.#writeQueue(this.#reply)
  }

  async #writeQueue(reply: UnreadReply): Promise<void> {
    const outgoing = this.#outgoing
    const { unread } = this.#counted
    for (let bytes = this.#queue.shift(); bytes; bytes = this.#queue.shift()) {
      for (let at = 0; at < bytes.byteLength; at += SLICE_BYTES) {
        if (outgoing.writableNeedDrain) await drained(outgoing)
        if (outgoing.destroyed) {
          this.#queue.length = 0
          return unread.release(reply)
        }
        outgoing.write(bytes.subarray(at, at + SLICE_BYTES))
        reply.takenAt = performance.now()
      }
      unread.release(reply, bytes.byteLength)
    }
    this.#waiting = undefined
  }
}

/** Most event streams are complete in the turn in which they begin. They are sent in one piece with their head. */
class NodeEvents implements EventSink {
  readonly #outgoing: ServerResponse
  readonly #head: Head
  readonly #writer: NodeWriter
  readonly #flushing: NodeJS.Immediate
  #gathered: string | undefined = ''

  constructor(outgoing: ServerResponse, head: Head) {
    this.#outgoing = outgoing
    this.#head = head
    this.#writer = new NodeWriter(outgoing, head)
    this.#flushing = setImmediate(() => this.#flush())
  }

  write(text: string): void {
    if (this.#gathered === undefined) return this.#writer.write(text)
    this.#gathered += text
    if (this.#gathered.length > MAX_GATHERED) this.#flush()
  }

  writable(): Promise<void> | undefined {
    return this.#writer.room()
  }

  end(onSent: () => void): void {
    clearImmediate(this.#flushing)
    const { waiting } = this.#writer
    if (waiting) void waiting.then(() => this.#end(onSent))
    else this.#end(onSent)
  }

  #end(onSent: () => void): void {
    const outgoing = this.#outgoing
    const text = this.#gathered
    if (outgoing.destroyed) return onSent()
    if (text !== undefined) {
      const { status, headers } = this.#head
      outgoing.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(text) })
    }
    outgoing.end(text)
    onSent()
  }

  #flush(): void {
    clearImmediate(this.#flushing)
    const text = this.#gathered ?? ''
    this.#gathered = undefined
    const outgoing = this.#outgoing
    if (outgoing.destroyed) return
    outgoing.writeHead(this.#head.status, this.#head.headers)
    if (text === '') outgoing.flushHeaders()
    else this.#writer.write(text)
  }
}

/** Resolves when the client can take more, or has left. */
function drained(outgoing: ServerResponse): Promise<void> {
  if (outgoing.destroyed) return Promise.resolve()
  return new Promise((resolve) => {
    const done = (): void => {
      outgoing.off('drain', done).off('close', done)
      resolve()
    }
    outgoing.on('drain', done).on('close', done)
  })
}
