import type { Readable, Writable } from 'node:stream'

import {
  isJSONRPCRequest,
  parseJSONRPCMessage,
  ProtocolErrorCode,
  type JSONRPCMessage,
  type RequestId,
  type Transport,
} from '@modelcontextprotocol/server'
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio'

import type { Caller } from './request-context.ts'
import { ownFilter } from './stateless-http.ts'
import { cancelledId, methodOf } from './json-rpc.ts'
import type { SdkServers, ServerParts } from './sdk-server.ts'

export interface StdioOptions {
  /** @default process.stdin */
  readonly input?: Readable | undefined
  /** Nothing else may be written to it. @default process.stdout */
  readonly output?: Writable | undefined
}

/** A client on a pipe. */
export interface StdioConnection extends AsyncDisposable {
  /** Resolves when one of the two sides has closed the pipe. */
  readonly closed: Promise<void>
  close(): Promise<void>
}

export interface StdioServing extends StdioOptions {
  readonly parts: ServerParts
  readonly servers: SdkServers
  /** The client on the pipe. */
  readonly caller: Caller
  readonly eras: { readonly modern: boolean; readonly legacy: boolean }
  readonly maxSubscriptions: number
  /** Resolves when agents had time to appear in lists. Never rejects. */
  readonly whenListable: () => Promise<void>
}

/** Serves one client over a pipe. Its first message decides which revisions it speaks; one server serves it to the end. */
export function connectStdio(options: StdioServing): StdioConnection {
  const { caller, parts, servers, eras, maxSubscriptions, whenListable } = options
  const wire = new WatchedStdio(options, async (message) => {
    const own = await ownFilter(message, (uri) => parts.resources?.followed(caller, uri))
    return parseJSONRPCMessage(own.body)
  })
  const handle = serveStdio(
    async ({ era }) => {
      if (!eras[era]) throw new Error(`The ${era} revisions of the protocol are not served here`)
      await whenListable()
      const server = servers.create(era === 'modern' ? 'modern' : 'session')
      server.onclose = () => parts.listeners.remove(server)
      const owner = parts.resources?.listOf(caller)
      if (era === 'modern') parts.listeners.add(server, { owner, isFiltered: true })
      else server.oninitialized = () => parts.listeners.add(server, { owner })
      return server
    },
    {
      transport: wire,
      legacy: eras.legacy ? 'serve' : 'reject',
      maxSubscriptions,
      onerror: (error) => parts.onError(legibleError(error)),
    },
  )
  const close = async (): Promise<void> => {
    wire.giveUp()
    await handle.close()
    await wire.close()
  }
  return { closed: wire.closed, close, [Symbol.asyncDispose]: close }
}

/** Validation errors of unions describe each alternative, which fills a log. */
function legibleError(error: Error): Error {
  return error.name === 'ZodError' || error.name === '$ZodError'
    ? new Error('A message on the pipe is not JSON-RPC')
    : error
}

/** Clients of the SDK kill a process 2 s after they closed its input. */
const LAST_ANSWERS_MS = 1500

type ListenReading = (message: JSONRPCMessage) => Promise<JSONRPCMessage>

/**
 * The transport of the SDK, with three changes:
 * - `closed` also resolves if the pipe is closed before its first message.
 * - `readListen` replaces each `subscriptions/listen`. Messages behind it wait, so that the order stays.
 * - At the end of the input, requests in flight are answered before the pipe is closed, for up to 1.5 s. Otherwise
 *   `printf … | mcp-gateway --stdio` would print nothing.
 */
class WatchedStdio extends StdioServerTransport {
  readonly closed: Promise<void>
  readonly #readListen: ListenReading
  readonly #waiting: JSONRPCMessage[] = []
  readonly #unanswered = new Set<RequestId>()
  #onAnswered: () => void = () => undefined
  #closing: Promise<void> | undefined
  #onClosed: () => void = () => undefined

  constructor({ input, output }: StdioOptions, readListen: ListenReading) {
    super(input, output)
    this.#readListen = readListen
    this.closed = new Promise((resolve) => {
      this.#onClosed = resolve
    })
  }

  override async start(): Promise<void> {
    const { onmessage: deliver } = this
    this.onmessage = (message) => {
      this.#note(message)
      if (this.#waiting.length === 0 && !isListen(message)) return deliver?.(message)
      this.#waiting.push(message)
      if (this.#waiting.length === 1) void this.#deliverWaiting(deliver)
    }
    await super.start()
  }

  async #deliverWaiting(deliver: Transport['onmessage']): Promise<void> {
    for (let next = this.#waiting[0]; next; next = this.#waiting[0]) {
      const message = isListen(next) ? await this.#listenFrom(next) : next
      if (message) deliver?.(message)
      this.#waiting.shift()
    }
  }

  async #listenFrom(message: JSONRPCMessage): Promise<JSONRPCMessage | undefined> {
    try {
      return await this.#readListen(message)
    } catch (cause) {
      this.onerror?.(new Error('The resources of a listener could not be checked', { cause }))
      if (!isJSONRPCRequest(message)) return undefined
      const error = { code: ProtocolErrorCode.InternalError, message: 'Try again' }
      await this.send({ jsonrpc: '2.0', id: message.id, error }).catch(() => undefined)
      return undefined
    }
  }

  #note(message: JSONRPCMessage): void {
    if (isJSONRPCRequest(message) && !isListen(message)) this.#unanswered.add(message.id)
    const cancelled = cancelledId(message)
    if (cancelled !== undefined) this.#settle(cancelled)
  }

  #settle(id: RequestId): void {
    this.#unanswered.delete(id)
    if (this.#unanswered.size === 0) this.#onAnswered()
  }

  override async send(message: JSONRPCMessage): Promise<void> {
    try {
      await super.send(message)
    } finally {
      if (!('method' in message) && message.id !== undefined) this.#settle(message.id)
    }
  }

  /** Closes without waiting for responses. */
  giveUp(): void {
    this.#unanswered.clear()
    this.#onAnswered()
  }

  override close(): Promise<void> {
    this.#closing ??= this.#closeOnce()
    return this.#closing
  }

  async #closeOnce(): Promise<void> {
    if (this.#unanswered.size > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, LAST_ANSWERS_MS)
        this.#onAnswered = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
    await super.close()
    this.#onClosed()
  }
}

function isListen(message: JSONRPCMessage): boolean {
  return methodOf(message) === 'subscriptions/listen'
}
