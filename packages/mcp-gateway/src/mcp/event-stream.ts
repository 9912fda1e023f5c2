/** Writes the text of an event stream to one HTTP response. */
export interface EventSink {
  write(text: string): void
  /** Resolves when the client can take more, or has left. `undefined`: it can take more now. */
  writable(): Promise<void> | undefined
  /** Ends the response. Calls `onSent` when the client has all of it. */
  end(onSent: () => void): void
}

/** How a stream was closed: by this process, or by the client. */
export type StreamEnd = 'ended' | 'lost'

/**
 * Server-sent events of one HTTP response. Keeps what is written until the HTTP server connects a sink, and reports
 * once how the stream was closed.
 */
export class EventStream {
  /** True if the client listens for changes on the stream. Such a stream lasts until the gateway closes. */
  isEndless = false
  readonly #closeListeners: ((end: StreamEnd) => void)[] = []
  #sink: EventSink | undefined
  #pending = ''
  /** Nothing more is written. */
  #isEnding = false
  #end: StreamEnd | undefined

  get isClosed(): boolean {
    return this.#isEnding || this.#end !== undefined
  }

  /** Adds a listener for the end of the stream. Called at once if the stream is closed already. */
  onClose(listener: (end: StreamEnd) => void): void {
    if (this.#end === undefined) this.#closeListeners.push(listener)
    else listener(this.#end)
  }

  /** Resolves when the client can take more, or has left. `undefined`: it can take more now. */
  writable(): Promise<void> | undefined {
    return this.#sink?.writable()
  }

  write(text: string): void {
    if (this.isClosed) return
    if (this.#sink) this.#sink.write(text)
    else this.#pending += text
  }

  /** Ends the stream. It is closed when the client has all of it, or has left. */
  end(): void {
    if (this.isClosed) return
    this.#isEnding = true
    this.#sink?.end(() => this.#close('ended'))
  }

  lose(): void {
    this.#pending = ''
    this.#close('lost')
  }

  connect(sink: EventSink): void {
    this.#sink = sink
    if (this.#pending !== '') sink.write(this.#pending)
    this.#pending = ''
    if (this.#isEnding) sink.end(() => this.#close('ended'))
  }

  #close(end: StreamEnd): void {
    if (this.#end !== undefined) return
    this.#end = end
    for (const listener of this.#closeListeners.splice(0)) listener(end)
  }
}

const END = '.end'

/**
 * Returns a message, as JSON text, in the format of server-sent events. Without an id, clients cannot resume after it.
 * The id of the last event is marked: a client that comes back with it is answered without the store.
 */
export function toEvent(data: string, id?: string, isLast = false): string {
  return id === undefined
    ? `event: message\ndata: ${data}\n\n`
    : `event: message\nid: ${id}${isLast ? END : ''}\ndata: ${data}\n\n`
}

/** Whether a `Last-Event-ID` names the last event of a stream. */
export function isEndOfStream(eventId: string): boolean {
  return /^[0-9a-f]{32}\.[\d-]+\.end$/.test(eventId)
}

/** Returns the first event of a stream: clients can resume after it, and learn how soon they may do so. */
export function toPrimingEvent(id: string, retryMs: number): string {
  return `id: ${id}\nretry: ${retryMs}\ndata: \n\n`
}
