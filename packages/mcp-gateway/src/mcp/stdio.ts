import type { Readable, Writable } from 'node:stream'

import { PROTOCOL_VERSION_META_KEY, type RequestId } from '@modelcontextprotocol/server'
import { isRecord, LineBuffer } from '@x/internal'
import { repairMessage } from '@x/internal/mcp-answers'

import { excessOf, valueFromJson } from '../internal/text.ts'
import { EventStream } from './event-stream.ts'
import {
  cancelledId,
  isRequestId,
  methodOf,
  paramsOf,
  RPC_ERROR,
  toErrorResponse,
  type Params,
} from './json-rpc.ts'
import type { Reply } from './reply.ts'
import type { Caller } from '../internal/principal.ts'
import { DEFAULT_REVISION } from './revisions.ts'
import type { SessionHttp } from './session-http.ts'
import { classifyRequest, encodeName, nameIn, type StatelessHttp } from './stateless-http.ts'

export interface StdioOptions {
  /** @default process.stdin */
  readonly input?: Readable | undefined
  /**
   * Where messages are written.
   *
   * @default process.stdout: what others in this process write there goes to standard error until the pipe is closed
   */
  readonly output?: Writable | undefined
}

export interface StdioConnection extends AsyncDisposable {
  /** Resolves when one of the two sides has closed the pipe. */
  readonly closed: Promise<void>
  close(): Promise<void>
}

export interface StdioServing extends StdioOptions {
  readonly caller: Caller
  readonly modern: StatelessHttp
  /** Serves this pipe only, and is closed with it. */
  readonly legacy: SessionHttp
  /** Resolves when agents had time to appear in lists. Never rejects. */
  readonly whenListable: () => Promise<void>
  readonly onError: (error: Error) => void
}

const NOT_RPC = 'A message on the pipe is not JSON-RPC'

/** Clients of the SDK kill a process 2 s after they closed its input. */
const LAST_ANSWERS_MS = 1500

/** Bytes of a message: as many as the SDK reads. */
const MAX_MESSAGE_BYTES = 10 * 1024 * 1024

/** Opens the session of a client that sends no `initialize`. */
const INITIALIZE: Params = {
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: {
    protocolVersion: DEFAULT_REVISION,
    capabilities: {},
    clientInfo: { name: 'unknown', version: '0' },
  },
}

/**
 * One client on a pipe. Each message is served as a request over HTTP, with the headers that a client sends there.
 *
 * At the end of the input, requests in flight are answered for up to 1.5 s. Otherwise `printf … | mcp-gateway --stdio`
 * would print nothing.
 */
export class StdioPipe implements StdioConnection {
  readonly closed: Promise<void>
  readonly #options: StdioServing
  readonly #input: Readable
  readonly #output: Writable
  readonly #write: Writable['write']
  readonly #undoDiversion: (() => void) | undefined
  readonly #buffer = new LineBuffer(MAX_MESSAGE_BYTES)
  /** Requests without an answer, and streams of changes, by their ids. */
  readonly #open = new Map<RequestId, AbortController>()
  readonly #unanswered = new Set<RequestId>()
  #sessionId: string | undefined
  /** Resolves when the next message can be served. */
  #ready: Promise<void> | undefined
  /** Resolves when the client can take more. `undefined`: it can take more now. */
  #writable: Promise<void> | undefined
  #onWritable: () => void = () => undefined
  #isClosed = false
  #onAnswered: () => void = () => undefined
  #onClosed: () => void = () => undefined

  constructor(options: StdioServing) {
    const { input = process.stdin, onError, output = process.stdout } = options
    this.#options = options
    this.#input = input
    this.#output = output
    this.#write = output.write.bind(output)
    this.#undoDiversion = output === process.stdout ? divertOthers() : undefined
    this.closed = new Promise((resolve) => (this.#onClosed = resolve))
    input
      .on('data', this.#read)
      .on('error', onError)
      .on('end', this.#ended)
      .on('close', this.#ended)
    if (input.readableEnded || input.destroyed) setImmediate(this.#ended)
    // Stays after the end of the pipe: without a listener, a late error would end the process.
    output.on('error', (error) => {
      if (!this.#isClosed) onError(error)
      void this.close()
    })
  }

  /** Closes without waiting for responses. */
  async close(): Promise<void> {
    if (this.#isClosed) return this.closed
    this.#isClosed = true
    this.#undoDiversion?.()
    this.#input.off('data', this.#read)
    if (this.#input.listenerCount('data') === 0) this.#input.pause()
    for (const request of this.#open.values()) request.abort(new Error('The pipe was closed'))
    await this.#options.legacy.close()
    this.#onWritable()
    this.#onAnswered()
    this.#onClosed()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  readonly #read = (chunk: Buffer): void => {
    const { onError } = this.#options
    try {
      this.#buffer.append(chunk)
    } catch (cause) {
      onError(new Error('A message on the pipe is too long', { cause }))
      void this.close()
    }
    for (let line = this.#buffer.next(); line !== undefined; line = this.#buffer.next()) {
      if (line.trim() !== '') this.#readLine(line)
    }
  }

  #readLine(line: string): void {
    const message = valueFromJson(line)
    if (!isRecord(message)) {
      this.#options.onError(new Error(NOT_RPC))
      return
    }
    const excess = excessOf(line)
    if (excess === undefined) {
      repairMessage(message)
      this.#received(message)
      return
    }
    const text = `Invalid Request: the message ${excess}`
    const { id } = message
    if ('method' in message && isRequestId(id)) {
      const error = { code: RPC_ERROR.invalidRequest, message: text }
      this.#send({ jsonrpc: '2.0', id, error })
    } else this.#options.onError(new Error(text))
  }

  readonly #ended = async (): Promise<void> => {
    await this.#ready
    if (this.#unanswered.size > 0) {
      await new Promise<void>((resolve) => {
        this.#onAnswered = resolve
        setTimeout(resolve, LAST_ANSWERS_MS).unref()
      })
    }
    await this.close()
  }

  #received(message: Params): void {
    this.#ready = this.#begin(message, this.#ready ?? this.#options.whenListable())
  }

  /** Never rejects. Resolves when the session of the message is open. */
  async #begin(message: Params, before: Promise<void>): Promise<void> {
    await before
    const isInitialize = methodOf(message) === 'initialize'
    const needsSession = this.#sessionId === undefined && 'id' in message && 'method' in message
    const isOpened = !needsSession || isInitialize || revisionOf(message) !== undefined
    if (!isOpened) await this.#serve(INITIALIZE, false)
    const served = this.#serve(message)
    if (isInitialize) await served
  }

  /** Never rejects. */
  async #serve(message: Params, isAnswered = true): Promise<void> {
    const id = isAnswered && 'method' in message ? requestIdOf(message) : undefined
    const cancelled = cancelledId(message)
    if (cancelled !== undefined) this.#open.get(cancelled)?.abort(new Error('Cancelled'))
    const request = new AbortController()
    if (id !== undefined) {
      this.#open.set(id, request)
      if (methodOf(message) !== 'subscriptions/listen') this.#unanswered.add(id)
    }
    try {
      const { signal } = request
      const isModern = revisionOf(message) !== undefined
      const { body, status } = await (isModern ? this.#call(message, signal) : this.#post(message))
      if (id === undefined && status >= 400) this.#options.onError(new Error(NOT_RPC))
      if (body instanceof EventStream) await this.#sendEvents(body, signal)
      else if (body !== undefined && id !== undefined) {
        const text = typeof body === 'string' ? body : await body.text()
        // Some errors over HTTP name no request.
        this.#send({ ...JSON.parse(text), id })
      }
      if (methodOf(message) === 'notifications/initialized') void this.#listen()
    } catch (cause) {
      this.#options.onError(new Error('A message on the pipe could not be served', { cause }))
      if (id !== undefined) this.#send(toErrorResponse(id, cause))
    }
    if (id === undefined) return
    this.#open.delete(id)
    this.#unanswered.delete(id)
    if (this.#unanswered.size === 0) this.#onAnswered()
  }

  async #call(message: Params, signal: AbortSignal): Promise<Reply> {
    const { caller, modern } = this.#options
    const [revision, method] = [revisionOf(message), methodOf(message)]
    const name = method === undefined ? undefined : nameIn(method, paramsOf(message))
    const headers = new Headers({ 'content-type': 'application/json' })
    if (typeof revision === 'string') headers.set('mcp-protocol-version', revision)
    if (method !== undefined) headers.set('mcp-method', method)
    if (name !== undefined) headers.set('mcp-name', encodeName(name))
    const route = classifyRequest({ method: 'POST', headers }, message)
    return modern.serve({ headers, signal }, { body: message, route }, caller)
  }

  async #post(message: Params): Promise<Reply> {
    const { caller, legacy } = this.#options
    const isInitialize = methodOf(message) === 'initialize'
    const headers = headersOf(isInitialize ? undefined : this.#sessionId)
    const reply = await legacy.serve({ method: 'POST', headers }, message, caller)
    this.#sessionId = reply.headers?.['mcp-session-id'] ?? this.#sessionId
    return reply
  }

  /** Opens the stream on which a client with a session is notified of changes. */
  async #listen(): Promise<void> {
    const { caller, legacy } = this.#options
    const headers = headersOf(this.#sessionId)
    const reply = await legacy.serve({ method: 'GET', headers }, undefined, caller)
    if (reply.body instanceof EventStream) void this.#sendEvents(reply.body)
  }

  #sendEvents(events: EventStream, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      events.onClose(() => resolve())
      // The client may have cancelled while the stream was made.
      if (signal?.aborted) return events.lose()
      signal?.addEventListener('abort', () => events.lose())
      events.connect({
        write: (text) => {
          for (const event of text.split('\n\n')) {
            const data = /data: (.+)/s.exec(event)?.[1]
            if (data !== undefined) this.#send(JSON.parse(data))
          }
        },
        writable: () => this.#writable,
        end: (onSent) => onSent(),
      })
    })
  }

  #send(message: object): void {
    if (this.#isClosed) return
    if (this.#write(`${JSON.stringify(message)}\n`)) return
    this.#writable ??= new Promise((resolve) => {
      this.#onWritable = () => {
        this.#writable = undefined
        resolve()
      }
      this.#output.once('drain', this.#onWritable)
    })
  }
}

/** Sends to standard error what others write to standard output. Returns its undo. */
function divertOthers(): () => void {
  const { stderr, stdout } = process
  const own = Object.getOwnPropertyDescriptor(stdout, 'write')
  stdout.write = stderr.write.bind(stderr)
  return () => {
    if (own) Object.defineProperty(stdout, 'write', own)
    else Reflect.deleteProperty(stdout, 'write')
  }
}

function headersOf(sessionId: string | undefined): Headers {
  const headers = new Headers({ accept: 'application/json, text/event-stream' })
  if (sessionId !== undefined) headers.set('mcp-session-id', sessionId)
  return headers
}

function requestIdOf({ id }: Params): RequestId | undefined {
  return isRequestId(id) ? id : undefined
}

/** Returns the revision that a request of 2026-07-28 names. Earlier requests name none. Nothing in it was checked. */
function revisionOf(message: Params): unknown {
  const { _meta: meta } = paramsOf(message)
  return isRecord(meta) ? meta[PROTOCOL_VERSION_META_KEY] : undefined
}
