import { isAscii } from 'node:buffer'
import { isRecord } from '@x/internal'
import { createParser } from 'eventsource-parser'
import type { RefusedResponse } from '../auth/authorizer.ts'
import { withoutHeaderValues, headerValue, mediaType } from '../headers.ts'
import type { ResponseHeaders } from '../headers.ts'
import { messageFrom, parseJson } from '../json-rpc.ts'
import type { JsonRpcMessage } from '../json-rpc.ts'
import type { ServerUrl } from '../server-url.ts'
import { TransportError } from '../transport-error.ts'
import type { Limits } from '../transport-options.ts'

export type AnswerOutcome =
  /** A complete 2xx response. All its messages were passed on. */
  | { readonly kind: 'ended'; readonly isStream: boolean }
  /** An error status, or a response that is not MCP. */
  | { readonly kind: 'refused'; readonly refusal: Refusal }
  /** The connection broke, a limit was exceeded, or the request was aborted. */
  | { readonly kind: 'failed'; readonly error: TransportError }

/** A response without an answer. */
export interface Refusal extends RefusedResponse {
  /** The body was encoded, incomplete, or longer than the limit for errors. */
  readonly isPartial: boolean
  /** Reason why no other credentials could be obtained, if they were requested. */
  readonly cause: unknown
}

export interface AnswerHandlers {
  /** Called for a response head and for each piece of a body, also for one without meaning. */
  activity?(): void
  /** Called with the head of a 2xx response, before its body. */
  head?(status: number, headers: ResponseHeaders): void
  message(message: JsonRpcMessage): void
  /** Called with an event that is JSON but not a JSON-RPC message. */
  stray?(text: string): void
  /** Called with a cursor for `Last-Event-ID`. An empty id resets the cursor. */
  cursor?(lastEventId: string): void
  /** Called with the reconnection delay that the server requests, in milliseconds. */
  retry?(ms: number): void
  /** Called exactly once, after all others. */
  outcome(outcome: AnswerOutcome): void
}

/** The server, for errors and limits. */
export interface AnswerSource {
  readonly url: Pick<ServerUrl, 'display'>
  readonly limits: Limits
}

const BODY_ENDED: AnswerOutcome = { kind: 'ended', isStream: false }
const STREAM_ENDED: AnswerOutcome = { kind: 'ended', isStream: true }

/** Limit for the body of an error. */
const REFUSAL_BYTES = 64 * 1024
/** Limit for a response of another server than an MCP server. */
const TEXT_BYTES = 1024 * 1024

/** Reads a response to a POST or GET: JSON, an event stream, an empty response or an error. */
export class AnswerReader {
  readonly #source: AnswerSource
  readonly #handlers: AnswerHandlers
  /** False for an authorization server: any response is read as text. */
  readonly #isMcp: boolean
  /** Headers of the request. Their values may be secrets. */
  readonly #sent: readonly string[]
  #status = 0
  #headers: ResponseHeaders = {}
  #mode: 'json' | 'stream' | 'empty' | 'refusal' = 'empty'
  #feed: EventReader | undefined
  /** The body, or all its pieces. */
  #body: Buffer | Buffer[] | undefined
  #room = 0
  #isPartial = false

  constructor(
    source: AnswerSource,
    handlers: AnswerHandlers,
    { isMcp, headers }: { readonly isMcp: boolean; readonly headers: readonly string[] },
  ) {
    this.#source = source
    this.#handlers = handlers
    this.#isMcp = isMcp
    this.#sent = headers
  }

  head(status: number, headers: ResponseHeaders): void {
    this.#status = status
    this.#headers = headers
    const handlers = this.#handlers
    const { limits } = this.#source
    handlers.activity?.()
    const isOk = this.#isMcp && status >= 200 && status < 300
    const type = mediaType(headers)
    const encoding = headerValue(headers, 'content-encoding')?.toLowerCase() ?? 'identity'
    if (encoding !== 'identity') {
      const problem = `encoded its answer as "${encoding}", which was not asked for`
      if (isOk) throw this.#error('UNEXPECTED_RESPONSE', problem)
      this.#mode = 'refusal' // only the status is used
      this.#isPartial = true
    } else if (isOk && type === 'text/event-stream') {
      this.#mode = 'stream'
      this.#feed = eventReader((text) => this.#event(text), handlers, limits.eventBytes)
    } else if (isOk && type === 'application/json') {
      this.#mode = 'json'
      this.#room = limits.responseBytes
    } else {
      this.#mode = isOk && (status === 202 || status === 204) ? 'empty' : 'refusal'
      this.#room = this.#isMcp ? REFUSAL_BYTES : TEXT_BYTES
    }
    if (isOk) handlers.head?.(status, headers)
  }

  /** Returns false if the rest of the response is not needed. */
  data(chunk: Buffer): boolean {
    this.#handlers.activity?.()
    if (this.#feed !== undefined) {
      if (!this.#feed(chunk)) throw this.#tooLarge('an event', 'eventBytes')
      return true
    }
    const fits = chunk.length <= this.#room
    this.#keep(fits ? chunk : chunk.subarray(0, this.#room))
    this.#room -= chunk.length
    if (fits) return true
    if (this.#mode === 'json') throw this.#tooLarge('an answer', 'responseBytes')
    this.#isPartial = true
    return false
  }

  /** Returns the outcome of a response that is complete, or whose rest is not needed. */
  end(): AnswerOutcome {
    if (this.#mode === 'stream') return STREAM_ENDED
    if (this.#mode === 'empty') return BODY_ENDED
    const body = this.#body ?? []
    const text = (Array.isArray(body) ? Buffer.concat(body) : body).toString()
    if (this.#mode === 'refusal') return this.#refused(text)
    const value = parseJson(text)
    if (Array.isArray(value)) return this.#batch(value, text)
    const message = messageFrom(value)
    if (message === undefined) return this.#refused(text)
    this.#handlers.message(message)
    return BODY_ENDED
  }

  #keep(chunk: Buffer): void {
    if (this.#body === undefined) this.#body = chunk
    else if (Array.isArray(this.#body)) this.#body.push(chunk)
    else this.#body = [this.#body, chunk]
  }

  /** Servers of 2025-03-26 may answer with a batch. */
  #batch(values: readonly unknown[], text: string): AnswerOutcome {
    const messages = values.map(messageFrom)
    if (messages.length === 0 || messages.includes(undefined)) return this.#refused(text)
    for (const message of messages) if (message !== undefined) this.#handlers.message(message)
    return BODY_ENDED
  }

  /** Returns the outcome of a response that failed or was aborted. */
  failed(error: TransportError): AnswerOutcome {
    // The head is enough to know that the message was refused or accepted.
    const isCut = error.code === 'OUTCOME_UNKNOWN' || error.code === 'TIMEOUT'
    const isKnown = this.#mode === 'empty' ? this.#status !== 0 : this.#status >= 400
    if (isCut && isKnown && this.#isMcp) {
      this.#isPartial = true
      return this.end()
    }
    return { kind: 'failed', error }
  }

  #refused(body: string): AnswerOutcome {
    const refusal = {
      status: this.#status,
      headers: this.#headers,
      text: this.#isMcp ? withoutHeaderValues(body, this.#sent) : body,
      isPartial: this.#isPartial,
      cause: undefined,
    }
    return { kind: 'refused', refusal }
  }

  #event(text: string): void {
    const value = parseJson(text)
    const message = messageFrom(value)
    if (message !== undefined) this.#handlers.message(message)
    else if (isRecord(value)) this.#handlers.stray?.(text)
  }

  #tooLarge(what: string, option: 'eventBytes' | 'responseBytes'): TransportError {
    const bytes = this.#source.limits[option]
    const problem = `sent ${what} of more than ${bytes} bytes: raise the option limits.${option} if the server may send that much`
    return this.#error('LIMIT', problem)
  }

  #error(code: 'LIMIT' | 'UNEXPECTED_RESPONSE', problem: string): TransportError {
    const { display: url } = this.#source.url
    return new TransportError(code, `${url} ${problem}`, { status: this.#status, url })
  }
}

/** Returns false after an event exceeded the limit. The stream cannot be used any more. */
type EventReader = (chunk: Buffer) => boolean

/**
 * Returns a function that parses server-sent events of one response (WHATWG HTML, section 9.2). Discards an
 * incomplete event at the end of the stream, empty events, and events with another name than `message`.
 */
export function eventReader(
  onData: (text: string) => void,
  handlers: Pick<AnswerHandlers, 'cursor' | 'retry'>,
  eventBytes: number,
): EventReader {
  let decoder: InstanceType<typeof TextDecoder> | undefined
  let isFirst = true
  let isTooLarge = false
  const parser = createParser({
    maxBufferSize: eventBytes,
    onEvent: ({ data, event = 'message' }) => {
      // The parser limits only the data that it buffers, not an event that arrives in one piece.
      if (isLonger(data, eventBytes)) isTooLarge = true
      else if (data !== '' && event === 'message') onData(data)
    },
    onId: (id) => handlers.cursor?.(id),
    onRetry: (ms) => handlers.retry?.(ms),
    onError: ({ type }) => {
      if (type === 'max-buffer-size-exceeded') isTooLarge = true
    },
  })
  return (chunk) => {
    // Most streams are ASCII in one piece, and need no decoder. A byte order mark counts only at the start.
    if (decoder === undefined && isAscii(chunk)) parser.feed(chunk.toString('latin1'))
    else {
      decoder ??= new TextDecoder('utf-8', { ignoreBOM: !isFirst })
      parser.feed(decoder.decode(chunk, { stream: true }))
    }
    isFirst = false
    return !isTooLarge
  }
}

/** Measures bytes only if needed: a UTF-16 code unit has at most three bytes in UTF-8. */
function isLonger(text: string, bytes: number): boolean {
  return text.length > bytes || (text.length * 3 > bytes && Buffer.byteLength(text) > bytes)
}
