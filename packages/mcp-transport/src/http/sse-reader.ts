import { createParser } from 'eventsource-parser'
import type { EventSourceParser } from 'eventsource-parser'

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
