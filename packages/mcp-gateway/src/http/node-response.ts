import type { ServerResponse } from 'node:http'

import type { Clock } from '../clock.ts'
import { SlowReader } from './slow-reader.ts'
import { StreamHead } from './stream-head.ts'
import { isEventStream } from './watched-body.ts'

export interface JsonWriting {
  /** @default 200 */
  readonly status?: number | undefined
  /** Beside those of the JSON itself. @default none */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

export interface ResponseWriting {
  readonly headers: Readonly<Record<string, string>>
  /** Aborts when the client has gone. */
  readonly signal: AbortSignal
  /** @default systemClock */
  readonly clock?: Clock | undefined
}

/**
 * Writes an answer, no faster than it is read; events as they come, until too many wait for the client.
 *
 * @returns whether all of it was written while the client was there
 */
export async function writeResponse(
  outgoing: ServerResponse,
  response: Response,
  { headers, signal, clock }: ResponseWriting,
): Promise<boolean> {
  if (signal.aborted) {
    await response.body?.cancel().catch(() => undefined)
    return false
  }
  if (response.body === null) {
    outgoing.writeHead(response.status, headers)
    return true
  }
  // Answers of our own, which have no length yet. A file that is JSON is none of them, and goes out as a stream.
  const isAnswer = response.headers.get('content-type') === 'application/json'
  if (isAnswer && !response.headers.has('content-length')) {
    const text = Buffer.from(await response.arrayBuffer())
    const length = String(text.byteLength)
    outgoing.writeHead(response.status, { ...headers, 'content-length': length }).write(text)
    return true
  }
  const isEvents = isEventStream(response)
  const head = new StreamHead(outgoing, { status: response.status, headers, isGathering: isEvents })
  const reader = response.body.getReader()
  const cancel = (): void => void reader.cancel().catch(() => undefined)
  const slow = new SlowReader({
    waiting: () => outgoing.writableLength,
    onSlow: () => outgoing.destroy(),
    clock,
  })
  signal.addEventListener('abort', cancel)
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (signal.aborted) return false
      if (done) return head.end()
      const isRoom = head.write(value)
      if (isEvents) slow.wrote()
      else if (!isRoom) await drained(outgoing)
    }
  } catch {
    return false
  } finally {
    head.flush()
    slow.end()
    signal.removeEventListener('abort', cancel)
  }
}

/** Writes a whole answer at once. @returns whether somebody was there to read it */
export function writeJson(
  outgoing: ServerResponse,
  json: string,
  { status = 200, headers }: JsonWriting,
): boolean {
  if (outgoing.destroyed) return false
  const length = Buffer.byteLength(json)
  const own = { 'content-type': 'application/json', 'content-length': length }
  outgoing.writeHead(status, headers ? { ...own, ...headers } : own).end(json)
  return true
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
