import type { ServerResponse } from 'node:http'

import { StreamHead } from './stream-head.ts'
import type { UnreadAnswer } from './unread-bytes.ts'
import { isEventStream } from '../internal/watched-body.ts'

export interface JsonWriting {
  /** @default 200 */
  readonly status?: number | undefined
  /** Beside those of the JSON itself. @default none */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Counts what waits for the client. */
  readonly unread: () => UnreadAnswer
}

export interface ResponseWriting {
  readonly headers: Readonly<Record<string, string>>
  /** Aborts when the client has gone. */
  readonly signal: AbortSignal
  /** Counts what waits for the client. */
  readonly unread: () => UnreadAnswer
}

/** Larger bodies go out in pieces of this size: others are served between two pieces, and the client's pace is seen. */
const SLICE_BYTES = 65_536

/**
 * Writes an answer, no faster than it is read; events as they come, until too many wait for the client.
 *
 * @returns whether all of it was written while the client was there
 */
export async function writeResponse(
  outgoing: ServerResponse,
  response: Response,
  { headers, signal, unread }: ResponseWriting,
): Promise<boolean> {
  if (signal.aborted) {
    await response.body?.cancel().catch(() => undefined)
    return false
  }
  if (response.body === null) {
    outgoing.writeHead(response.status, headers)
    return true
  }
  // JSON of our own has no length yet. A file that is JSON has one, and goes out as a stream.
  const isAnswer = response.headers.get('content-type') === 'application/json'
  if (isAnswer && !response.headers.has('content-length')) {
    const text = Buffer.from(await response.arrayBuffer())
    const length = String(text.byteLength)
    outgoing.writeHead(response.status, { ...headers, 'content-length': length })
    return writeWhole(outgoing, text, unread)
  }
  const isEvents = isEventStream(response)
  const head = new StreamHead(outgoing, { status: response.status, headers, isGathering: isEvents })
  const reader = response.body.getReader()
  const cancel = (): void => void reader.cancel().catch(() => undefined)
  const events = isEvents ? new EventQueue({ outgoing, head, unread }) : undefined
  signal.addEventListener('abort', cancel)
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (signal.aborted) return false
      if (done) {
        await events?.written
        return head.end() && !outgoing.destroyed
      }
      if (events) events.push(value)
      else if (value.byteLength > SLICE_BYTES) await writeWhole(outgoing, value, unread)
      else if (!head.write(value)) await drained(outgoing)
    }
  } catch {
    return false
  } finally {
    head.flush()
    events?.end()
    signal.removeEventListener('abort', cancel)
  }
}

/** Writes a whole answer. @returns whether somebody was there to read it */
export function writeJson(
  outgoing: ServerResponse,
  json: string,
  { status = 200, headers, unread }: JsonWriting,
): boolean | Promise<boolean> {
  if (outgoing.destroyed) return false
  const length = Buffer.byteLength(json)
  const own = { 'content-type': 'application/json', 'content-length': length }
  outgoing.writeHead(status, headers ? { ...own, ...headers } : own)
  if (length <= SLICE_BYTES) {
    outgoing.end(json)
    return true
  }
  return writeWhole(outgoing, Buffer.from(json), unread)
}

/** Writes bytes in slices, no faster than the client takes them. @returns whether it took them */
async function writeWhole(
  outgoing: ServerResponse,
  bytes: Uint8Array,
  unread: () => UnreadAnswer,
): Promise<boolean> {
  if (bytes.byteLength <= SLICE_BYTES) {
    outgoing.write(bytes)
    return true
  }
  const answer = unread()
  if (!answer.add(bytes.byteLength)) return false
  try {
    for (const slice of slicesOf(bytes)) {
      if (outgoing.destroyed) return false
      if (!outgoing.write(slice)) await drained(outgoing)
      answer.progress()
    }
    return !outgoing.destroyed
  } finally {
    answer.release()
  }
}

function* slicesOf(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.byteLength; at += SLICE_BYTES) {
    yield bytes.subarray(at, at + SLICE_BYTES)
  }
}

interface EventQueueParts {
  readonly outgoing: ServerResponse
  readonly head: StreamHead
  readonly unread: () => UnreadAnswer
}

/** Events come whether they are read or not: those that the connection does not take wait here, and are counted. */
class EventQueue {
  readonly #parts: EventQueueParts
  readonly #waiting: Uint8Array[] = []
  #answer: UnreadAnswer | undefined
  #writing: Promise<void> | undefined

  constructor(parts: EventQueueParts) {
    this.#parts = parts
  }

  /** Resolves when nothing waits any more. */
  get written(): Promise<void> | undefined {
    return this.#writing
  }

  push(bytes: Uint8Array): void {
    const { outgoing, head, unread } = this.#parts
    if (!this.#writing && bytes.byteLength <= SLICE_BYTES && !outgoing.writableNeedDrain) {
      head.write(bytes)
      return
    }
    this.#answer ??= unread()
    if (!this.#answer.add(bytes.byteLength)) return
    this.#waiting.push(bytes)
    this.#writing ??= this.#write()
  }

  /** The stream has ended. */
  end(): void {
    this.#answer?.release()
  }

  async #write(): Promise<void> {
    const { outgoing, head } = this.#parts
    for (let bytes = this.#waiting.shift(); bytes; bytes = this.#waiting.shift()) {
      for (const slice of slicesOf(bytes)) {
        if (outgoing.writableNeedDrain) await drained(outgoing)
        if (outgoing.destroyed) return
        head.write(slice)
        this.#answer?.progress()
      }
      this.#answer?.release(bytes.byteLength)
    }
    this.#writing = undefined
  }
}

/** Resolves when there is room to write again, or nobody left to write to. */
export function drained(outgoing: ServerResponse): Promise<void> {
  if (outgoing.destroyed) return Promise.resolve()
  return new Promise((resolve) => {
    const done = (): void => {
      outgoing.off('drain', done).off('close', done)
      resolve()
    }
    outgoing.on('drain', done).on('close', done)
  })
}
