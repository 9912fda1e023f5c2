import { isRecord } from '@x/internal'
import { createParser } from 'eventsource-parser'
import type { EventSourceParser } from 'eventsource-parser'
import { withoutHeaderValues, headerValue, mediaType } from '../headers.ts'
import type { ResponseHeaders } from '../headers.ts'
import { messageFrom } from '../json-rpc.ts'
import type { JsonRpcMessage } from '../json-rpc.ts'
import { TransportError } from '../transport-error.ts'
import type { ResponseReader } from './exchange.ts'

/** How a response ended. */
export type AnswerOutcome =
  /** A 2xx response, read to its end; all its messages have been handed on. */
  | { readonly kind: 'ended'; readonly isStream: boolean }
  /** A response that is not MCP, or an error status: what it said, for whoever must judge it. */
  | { readonly kind: 'refused'; readonly refusal: Refusal }
  /** The connection broke, a limit was passed, or this side gave up. */
  | { readonly kind: 'failed'; readonly error: TransportError }

/** A response that carried no answer. */
export interface Refusal {
  readonly status: number
  readonly headers: ResponseHeaders
  /** The body, as far as it was read, without the values of headers that the caller has sent. */
  readonly text: string
  /** The body was encoded, broke off, or was longer than what is read of an error. */
  readonly isPartial?: boolean | undefined
  /** Why other credentials could not be had, if they were asked for. */
  readonly cause?: unknown
}

export interface AnswerHandlers {
  /** Something has come: a response head, or a piece of a body, also one that means nothing. */
  readonly activity?: (() => void) | undefined
  /** The response head of a 2xx, before its body. */
  head?(status: number, headers: ResponseHeaders): void
  message(message: JsonRpcMessage): void
  /** An event of a stream that is JSON, but no JSON-RPC message. */
  stray?(text: string): void
  cursor?(lastEventId: string): void
  retry?(ms: number): void
  /** Exactly once, and last. */
  outcome(outcome: AnswerOutcome): void
}

/** What an answer is to. */
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

/** How much of an error body is read in order to understand it. */
const REFUSAL_BYTES = 64 * 1024

/** Reads what a server may answer to a POST or GET: JSON, an event stream, nothing, or a refusal. */
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
      this.#mode = 'refusal' // the status speaks for itself
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
    // Enough was read to understand an error or an endless "accepted"; the rest is of no use.
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
    // The head has said all that matters: a refusal, or that the message was accepted.
    const isCut = error.code === 'OUTCOME_UNKNOWN' || error.code === 'TIMEOUT'
    const isSaid = this.#mode === 'empty' ? this.#status !== 0 : this.#status >= 400
    if (isCut && isSaid) {
      this.#isPartial = true
      return this.end()
    }
    this.#isOver = true
    // What a callback above threw as a TransportError is the failure itself.
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

  /** 2025-03-26 servers may answer with one. */
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
    return undefined // not JSON: the caller says what that means here
  }
}

export interface SseHandlers {
  /** `data` of one event, not empty. */
  data(text: string): void
  /** A cursor for `Last-Event-ID`; an empty one resets it. */
  id(id: string): void
  /** The server's wish for the delay before a reconnection, in milliseconds. */
  retry(ms: number): void
}

/**
 * Server-sent events from the bytes of one response (WHATWG HTML, section 9.2). An event that the end of
 * the stream cuts off is discarded; other event names than `message` are skipped.
 */
export class SseReader {
  readonly #decoder = new TextDecoder()
  readonly #parser: EventSourceParser
  #tooLarge = false

  constructor(handlers: SseHandlers, eventBytes: number) {
    this.#parser = createParser({
      maxBufferSize: eventBytes,
      onEvent: (event) => {
        // The parser counts only what it buffers between feeds; an event that came whole passes that.
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

  /** Returns false once an event was larger than the limit: the stream is of no more use. */
  feed(chunk: Buffer): boolean {
    this.#parser.feed(this.#decoder.decode(chunk, { stream: true }))
    return !this.#tooLarge
  }
}

/** A character takes at most three bytes per code unit: most texts need not be measured. */
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

  /** Returns false once the limit is passed; what came until then is kept, what comes later is not. */
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
