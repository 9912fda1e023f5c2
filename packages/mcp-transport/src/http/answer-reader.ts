import { isRecord } from '@x/internal'
import { createParser } from 'eventsource-parser'
import type { EventSourceParser } from 'eventsource-parser'
import { withoutHeaderValues, headerValue, mediaType } from '../headers.ts'
import type { ResponseHeaders } from '../headers.ts'
import { messageFrom } from '../json-rpc.ts'
import type { JsonRpcMessage } from '../json-rpc.ts'
import { TransportError } from '../transport-error.ts'
import type { ResponseReader } from './exchange.ts'

/** Result of a response. */
export type AnswerOutcome =
  /** A complete 2xx response. All its messages were passed on. */
  | { readonly kind: 'ended'; readonly isStream: boolean }
  /** An error status, or a response that is not MCP. */
  | { readonly kind: 'refused'; readonly refusal: Refusal }
  /** The connection broke, a limit was exceeded, or the request was aborted. */
  | { readonly kind: 'failed'; readonly error: TransportError }

/** A response without an answer. */
export interface Refusal {
  readonly status: number
  readonly headers: ResponseHeaders
  /** The body as far as it was read, without the values of the user's headers. */
  readonly text: string
  /** The body was encoded, incomplete, or longer than the limit for errors. */
  readonly isPartial?: boolean | undefined
  /** Reason why no other credentials could be obtained, if they were requested. */
  readonly cause?: unknown
}

export interface AnswerHandlers {
  /** Called for a response head and for each piece of a body, also for one without meaning. */
  readonly activity?: (() => void) | undefined
  /** Called with the head of a 2xx response, before its body. */
  head?(status: number, headers: ResponseHeaders): void
  message(message: JsonRpcMessage): void
  /** Called with an event that is JSON but not a JSON-RPC message. */
  stray?(text: string): void
  cursor?(lastEventId: string): void
  retry?(ms: number): void
  /** Called exactly once, after all others. */
  outcome(outcome: AnswerOutcome): void
}

/** The request that a response answers. */
export interface AnsweredRequest {
  /** Endpoint without query, for messages. */
  readonly display: string
  /** Flat list: name, value, name, value. */
  readonly headers: readonly string[]
}

export interface AnswerLimits {
  readonly responseBytes: number
  readonly eventBytes: number
}

const NO_HEADERS: ResponseHeaders = {}
const BODY_ENDED: AnswerOutcome = { kind: 'ended', isStream: false }
const STREAM_ENDED: AnswerOutcome = { kind: 'ended', isStream: true }

/** Limit for the body of an error. */
const REFUSAL_BYTES = 64 * 1024

/** Reads a response to a POST or GET: JSON, an event stream, an empty response or an error. */
export class AnswerReader implements ResponseReader {
  readonly #handlers: AnswerHandlers
  readonly #limits: AnswerLimits
  readonly #request: AnsweredRequest
  #status = 0
  #headers: ResponseHeaders = NO_HEADERS
  #mode: 'json' | 'stream' | 'empty' | 'refusal' = 'empty'
  #body: TextBody | undefined
  #stream: SseReader | undefined
  #isOver = false
  #isPartial = false

  constructor(handlers: AnswerHandlers, limits: AnswerLimits, request: AnsweredRequest) {
    this.#handlers = handlers
    this.#limits = limits
    this.#request = request
  }

  head(status: number, headers: ResponseHeaders): void {
    this.#status = status
    this.#headers = headers
    this.#handlers.activity?.()
    const type = mediaType(headers)
    const isOk = status >= 200 && status < 300
    const encoding = headerValue(headers, 'content-encoding')?.toLowerCase() ?? 'identity'
    if (encoding !== 'identity') {
      if (isOk)
        throw this.#unexpected(`encoded its answer as "${encoding}", which was not asked for`)
      this.#mode = 'refusal' // only the status is used
      this.#body = new TextBody(0)
      this.#isPartial = true
    } else if (isOk && type === 'text/event-stream') {
      this.#mode = 'stream'
      this.#stream = new SseReader(
        {
          data: (text) => this.#event(text),
          id: (id) => this.#handlers.cursor?.(id),
          retry: (ms) => this.#handlers.retry?.(ms),
        },
        this.#limits.eventBytes,
      )
    } else if (isOk && type === 'application/json') {
      this.#mode = 'json'
      this.#body = new TextBody(this.#limits.responseBytes)
    } else {
      this.#mode = isOk && (status === 202 || status === 204) ? 'empty' : 'refusal'
      this.#body = new TextBody(REFUSAL_BYTES)
    }
    if (isOk) this.#handlers.head?.(status, headers)
  }

  data(chunk: Buffer): boolean {
    this.#handlers.activity?.()
    if (this.#stream !== undefined) {
      if (!this.#stream.feed(chunk)) throw this.#tooLarge('an event', 'eventBytes')
      return true
    }
    if (this.#body?.add(chunk) !== false) return true
    if (this.#mode === 'json') throw this.#tooLarge('an answer', 'responseBytes')
    // The limit for errors and for bodies of accepted messages is reached. The rest is not read.
    this.#isPartial = true
    return false
  }

  end(): void {
    if (this.#isOver) return
    this.#isOver = true
    switch (this.#mode) {
      case 'stream':
        return this.#handlers.outcome(STREAM_ENDED)
      case 'empty':
        return this.#handlers.outcome(BODY_ENDED)
      case 'json':
        return this.#json(this.#body?.text() ?? '')
      case 'refusal':
        return this.#refused(this.#body?.text() ?? '')
    }
  }

  failed(error: TransportError): void {
    if (this.#isOver) return
    // The head is enough to know that the message was refused or accepted.
    const isCut = error.code === 'OUTCOME_UNKNOWN' || error.code === 'TIMEOUT'
    const isSaid = this.#mode === 'empty' ? this.#status !== 0 : this.#status >= 400
    if (isCut && isSaid) {
      this.#isPartial = true
      return this.end()
    }
    this.#isOver = true
    // A callback threw this TransportError.
    const { cause } = error
    const own = error.code === 'UNEXPECTED_RESPONSE' && TransportError.is(cause) ? cause : error
    this.#handlers.outcome({ kind: 'failed', error: own })
  }

  #json(text: string): void {
    const value = parseJson(text)
    if (Array.isArray(value)) return this.#batch(value, text)
    const message = messageFrom(value)
    if (message === undefined) return this.#refused(text)
    this.#handlers.message(message)
    this.#handlers.outcome(BODY_ENDED)
  }

  /** Servers of 2025-03-26 may answer with a batch. */
  #batch(values: readonly unknown[], text: string): void {
    const messages = values.map(messageFrom)
    if (messages.length === 0 || messages.includes(undefined)) return this.#refused(text)
    for (const message of messages) if (message !== undefined) this.#handlers.message(message)
    this.#handlers.outcome(BODY_ENDED)
  }

  #refused(said: string): void {
    const text = withoutHeaderValues(said, this.#request.headers)
    const isPartial = this.#isPartial
    const refusal = { status: this.#status, headers: this.#headers, text, isPartial }
    this.#handlers.outcome({ kind: 'refused', refusal })
  }

  #event(text: string): void {
    const value = parseJson(text)
    const message = messageFrom(value)
    if (message !== undefined) this.#handlers.message(message)
    else if (isRecord(value)) this.#handlers.stray?.(text)
  }

  #unexpected(what: string): TransportError {
    const { display } = this.#request
    return new TransportError('UNEXPECTED_RESPONSE', `${display} ${what}`, {
      status: this.#status,
      url: display,
    })
  }

  #tooLarge(what: string, option: 'eventBytes' | 'responseBytes'): TransportError {
    const { display } = this.#request
    const bytes = this.#limits[option]
    const message = `${display} sent ${what} of more than ${bytes} bytes: raise the option limits.${option} if the server may send that much`
    return new TransportError('LIMIT', message, { status: this.#status, url: display })
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // not JSON
  }
}

export interface SseHandlers {
  /** Called with the `data` of an event, if it is not empty. */
  data(text: string): void
  /** Called with a cursor for `Last-Event-ID`. An empty id resets the cursor. */
  id(id: string): void
  /** Called with the reconnection delay that the server requests, in milliseconds. */
  retry(ms: number): void
}

/**
 * Parses server-sent events of one response (WHATWG HTML, section 9.2). Discards an incomplete event at the end
 * of the stream, and events with another name than `message`.
 */
export class SseReader {
  readonly #decoder = new TextDecoder()
  readonly #parser: EventSourceParser
  #tooLarge = false

  constructor(handlers: SseHandlers, eventBytes: number) {
    this.#parser = createParser({
      maxBufferSize: eventBytes,
      onEvent: (event) => {
        // The parser limits only the data that it buffers, not an event that arrives in one piece.
        if (isLonger(event.data, eventBytes)) this.#tooLarge = true
        else if (event.data !== '' && (event.event ?? 'message') === 'message') {
          handlers.data(event.data)
        }
      },
      onId: (id) => handlers.id(id),
      onRetry: (ms) => handlers.retry(ms),
      onError: (error) => {
        if (error.type === 'max-buffer-size-exceeded') this.#tooLarge = true
      },
    })
  }

  /** Returns false after an event exceeded the limit. The stream cannot be used any more. */
  feed(chunk: Buffer): boolean {
    this.#parser.feed(this.#decoder.decode(chunk, { stream: true }))
    return !this.#tooLarge
  }
}

/** Measures bytes only if needed: a UTF-16 code unit has at most three bytes in UTF-8. */
function isLonger(text: string, bytes: number): boolean {
  return text.length > bytes || (text.length * 3 > bytes && Buffer.byteLength(text) > bytes)
}

/** Collects a body as UTF-8 text, up to a limit. */
export class TextBody {
  readonly #limitBytes: number
  #first: Buffer | undefined
  #rest: Buffer[] | undefined
  #bytes = 0

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  /** Returns false when the limit is exceeded. Data up to the limit is kept. */
  add(chunk: Buffer): boolean {
    const room = this.#limitBytes - this.#bytes
    const fits = chunk.length <= room
    const kept = fits ? chunk : chunk.subarray(0, Math.max(room, 0))
    this.#bytes += kept.length
    if (this.#first === undefined) this.#first = kept
    else (this.#rest ??= []).push(kept)
    return fits
  }

  text(): string {
    if (this.#first === undefined) return ''
    if (this.#rest === undefined) return this.#first.toString('utf8')
    return Buffer.concat([this.#first, ...this.#rest]).toString('utf8')
  }
}
