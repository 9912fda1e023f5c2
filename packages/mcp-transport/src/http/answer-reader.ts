import { isAscii, isUtf8 } from 'node:buffer'
import * as zlib from 'node:zlib' // a named import of a new function fails on an old Node.js, before the check
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
  /** The body was incomplete, longer than the limit for errors, or in an encoding that cannot be read. */
  readonly isPartial: boolean
  /** The request had the header `authorization`. */
  readonly hadAuthorization: boolean
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

/** Decodes a complete body of at most `maxOutputLength` bytes. */
type Decode = (body: Buffer, options: { readonly maxOutputLength: number }) => Buffer

/**
 * Encodings that servers and proxies use without being asked: the client sends no `Accept-Encoding`, so each one is
 * allowed (RFC 9110, section 12.5.3).
 */
const DECODERS: ReadonlyMap<string, Decode> = new Map<string, Decode>([
  ['gzip', zlib.gunzipSync],
  ['x-gzip', zlib.gunzipSync],
  ['deflate', zlib.inflateSync],
  ['br', zlib.brotliDecompressSync],
  ['zstd', zlib.zstdDecompressSync],
])

/** Some servers name the character set here (yhirose/cpp-httplib#2518, encode/httpx#195). */
const PLAIN = /^(?:identity|utf-?8)?$/i

/** The first characters of JSON (group 1), or a field or a comment of an event stream. */
const START = /^(?:\xEF\xBB\xBF)?\s*(?:([[{])|(?:data|event|id|retry)?:)/
/** White space before the start: the next piece of the body decides. */
const BLANK = /^(?:\xEF\xBB\xBF)?\s*$/

/** First bytes of nearly all bodies: of a JSON object, and of `data` and `event` in an event stream. */
const [BRACE, D, E] = Buffer.from('{de')

/**
 * Reads a response to a POST or GET: JSON, an event stream, an empty response or an error. The first bytes of a 2xx
 * response decide between JSON and an event stream, because servers and proxies are known to send a wrong content type or
 * none (agentic-community/mcp-gateway-registry#1051, helidon-io/helidon-mcp#97). An encoded response is decoded at its end.
 * An encoded event stream is refused, because its messages are needed while it is open.
 */
export class AnswerReader {
  readonly #source: AnswerSource
  readonly #handlers: AnswerHandlers
  /** False for an authorization server: any response is read as text. */
  readonly #isMcp: boolean
  /** Headers of the request. Their values may be secrets. */
  readonly #sent: readonly string[]
  readonly #isLongLived: boolean
  #status = 0
  #headers: ResponseHeaders = {}
  #mode: 'json' | 'stream' | 'empty' | 'refusal' = 'empty'
  #feed: EventReader | undefined
  #decode: Decode | undefined
  /** The first bytes of the body can still change the mode. */
  #isStart = false
  /** The body, or all its pieces. */
  #body: Buffer | Buffer[] | undefined
  #room = 0
  #isPartial = false

  constructor(
    source: AnswerSource,
    handlers: AnswerHandlers,
    {
      isMcp,
      headers,
      isLongLived = false,
    }: {
      readonly isMcp: boolean
      readonly headers: readonly string[]
      /** The response may be a stream that does not end. @default false */
      readonly isLongLived?: boolean
    },
  ) {
    this.#source = source
    this.#handlers = handlers
    this.#isMcp = isMcp
    this.#sent = headers
    this.#isLongLived = isLongLived
  }

  head(status: number, headers: ResponseHeaders): void {
    this.#status = status
    this.#headers = headers
    const handlers = this.#handlers
    handlers.activity?.()
    const isOk = this.#isMcp && status >= 200 && status < 300
    const type = mediaType(headers)
    const isStream = isOk && type === 'text/event-stream'
    const isJson = isOk && type === 'application/json'
    const isEmpty = isOk && (status === 202 || status === 204) && !isStream && !isJson
    const given = isEmpty ? undefined : headerValue(headers, 'content-encoding')
    const encoding = given === undefined || PLAIN.test(given) ? 'identity' : given.toLowerCase()
    if (encoding !== 'identity') this.#decode = DECODERS.get(encoding)
    if (encoding !== 'identity' && (this.#decode === undefined || isStream)) {
      const problem = `encoded its answer as "${encoding}", which cannot be read${isStream ? ' in an event stream' : ''}: disable it in the server or its proxy`
      if (isOk) throw this.#error('UNEXPECTED_RESPONSE', problem)
      this.#mode = 'refusal' // only the status is used
      this.#isPartial = true
    } else if (isStream) {
      this.#startStream()
    } else if (isJson) {
      this.#startJson()
    } else {
      this.#mode = isEmpty ? 'empty' : 'refusal'
      this.#room = this.#refusalBytes
    }
    // A GET must not take a page for a stream: it would be opened again and again.
    this.#isStart = isOk && !isEmpty && !this.#isLongLived
    if (this.#isStart && this.#decode !== undefined) this.#room = this.#source.limits.responseBytes
    if (isOk) handlers.head?.(status, headers)
  }

  /** Returns false if the rest of the response is not needed. */
  data(chunk: Buffer): boolean {
    this.#handlers.activity?.()
    if (this.#isStart && this.#decode === undefined) this.#sniff(chunk)
    if (this.#feed !== undefined && this.#decode === undefined) return this.#feedAll(chunk)
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
    if (this.#mode === 'empty') return BODY_ENDED
    const kept = this.#body ?? []
    let body = Array.isArray(kept) ? Buffer.concat(kept) : kept
    if (this.#decode !== undefined) {
      body = this.#decoded(body, this.#decode)
      if (this.#isStart) this.#sniff(body)
    }
    if (this.#mode === 'stream') {
      if (this.#decode !== undefined) this.#feedAll(body)
      this.#feed?.(EVENT_END, true)
      return STREAM_ENDED
    }
    if (this.#mode === 'refusal' && body.length > this.#refusalBytes) {
      this.#isPartial = true
      body = body.subarray(0, this.#refusalBytes)
    }
    const text = body.toString()
    if (this.#mode === 'refusal') return this.#refused(text)
    const value = parseJson(text)
    if (Array.isArray(value)) return this.#batch(value, text)
    const message = messageFrom(value)
    if (message === undefined) return this.#refused(text)
    this.#handlers.message(message)
    return BODY_ENDED
  }

  get #refusalBytes(): number {
    return this.#isMcp ? REFUSAL_BYTES : TEXT_BYTES
  }

  #startStream(): void {
    const { eventBytes } = this.#source.limits
    this.#mode = 'stream'
    this.#feed = eventReader((text) => this.#event(text), this.#handlers, eventBytes)
  }

  #startJson(): void {
    this.#mode = 'json'
    this.#room = this.#source.limits.responseBytes
    this.#feed = undefined
  }

  /** Corrects the mode by the first bytes of the body. */
  #sniff(chunk: Buffer): void {
    this.#isStart = false
    const first = chunk[0]
    if (this.#mode === 'json' && first === BRACE) return
    if (this.#mode === 'stream' && (first === D || first === E)) return
    const text = chunk.toString('latin1', 0, 64)
    this.#isStart = text.length === chunk.length && BLANK.test(text)
    const start = START.exec(text)
    if (start === null) return
    if (start[1] !== undefined) this.#startJson()
    else if (this.#mode !== 'stream') this.#startStream()
  }

  #feedAll(chunk: Buffer): true {
    if (this.#feed?.(chunk) === false) throw this.#tooLarge('an event', 'eventBytes')
    return true
  }

  #decoded(body: Buffer, decode: Decode): Buffer {
    if (body.length === 0) return body
    const isAnswer = this.#mode !== 'refusal' || this.#isStart
    const { responseBytes } = this.#source.limits
    try {
      return decode(body, { maxOutputLength: isAnswer ? responseBytes : this.#refusalBytes })
    } catch (cause) {
      // Proxies are known to decode a body and to pass the header on (neutree-ai/agent-platform#224).
      if (isUtf8(body) && START.test(body.toString('latin1', 0, 64))) return body
      if (this.#mode === 'refusal') {
        this.#isPartial = true
        return Buffer.alloc(0)
      }
      if (cause instanceof RangeError) throw this.#tooLarge('an answer', 'responseBytes')
      throw this.#error('UNEXPECTED_RESPONSE', 'sent an answer that cannot be decoded', cause)
    }
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
      hadAuthorization: this.#sent.some(
        (part, index) => index % 2 === 0 && part === 'authorization',
      ),
      cause: undefined,
    }
    return { kind: 'refused', refusal }
  }

  /** Also reads a batch: servers of 2025-03-26 may send one in an event. Returns whether the text has a message. */
  #event(text: string): boolean {
    const value = parseJson(text)
    let hasMessage = false
    for (const item of Array.isArray(value) ? value : [value]) {
      const message = messageFrom(item)
      hasMessage ||= message !== undefined
      if (message !== undefined) this.#handlers.message(message)
      else if (isRecord(item)) this.#handlers.stray?.(text)
    }
    return hasMessage
  }

  #tooLarge(what: string, option: 'eventBytes' | 'responseBytes'): TransportError {
    const bytes = this.#source.limits[option]
    const problem = `sent ${what} of more than ${bytes} bytes: raise the option limits.${option} if the server may send that much`
    return this.#error('LIMIT', problem)
  }

  #error(code: 'LIMIT' | 'UNEXPECTED_RESPONSE', problem: string, cause?: unknown): TransportError {
    const { display: url } = this.#source.url
    return new TransportError(code, `${url} ${problem}`, { status: this.#status, url, cause })
  }
}

/** Returns false after an event exceeded the limit. The stream cannot be used any more. */
type EventReader = (chunk: Buffer, isEnd?: boolean) => boolean

/** Servers are known to leave it out after their last event (vercel/ai#16865). */
const EVENT_END = Buffer.from('\n\n')

/**
 * Returns a function that parses server-sent events of one response (WHATWG HTML, section 9.2). Discards empty
 * events, and events with another name than `message`. The data of an event without an end is read with `isEnd`. Its id
 * counts only if the data is a message, which is complete then: a resumed stream does not send the event again. Any
 * other event may be incomplete, and must come again.
 *
 * @param onData returns whether the data is a message
 */
export function eventReader(
  onData: (text: string) => boolean,
  handlers: Pick<AnswerHandlers, 'cursor' | 'retry'>,
  eventBytes: number,
): EventReader {
  let decoder: InstanceType<typeof TextDecoder> | undefined
  let isFirst = true
  let isTooLarge = false
  let isOver = false
  const parser = createParser({
    maxBufferSize: eventBytes,
    onEvent: ({ id, data, event = 'message' }) => {
      // The parser limits only the data that it buffers, not an event that arrives in one piece.
      if (isLonger(data, eventBytes)) isTooLarge = true
      else if (data !== '' && event === 'message') {
        const isMessage = onData(data)
        if (isOver && isMessage && id !== undefined) handlers.cursor?.(id)
      }
    },
    onId: (id) => void (isOver || handlers.cursor?.(id)),
    onRetry: (ms) => handlers.retry?.(ms),
    onError: ({ type }) => {
      if (type === 'max-buffer-size-exceeded') isTooLarge = true
    },
  })
  return (chunk, isEnd = false) => {
    isOver = isEnd
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
