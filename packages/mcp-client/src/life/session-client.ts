import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { ClientOptions } from '@modelcontextprotocol/sdk/client/index.js'
import type { AnySchema, SchemaOutput } from '@modelcontextprotocol/sdk/server/zod-compat.js'
import type { RequestOptions } from '@modelcontextprotocol/sdk/shared/protocol.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { ErrorCode, McpError, ProgressNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import type {
  ClientRequest,
  Implementation,
  JSONRPCMessage,
  JSONRPCRequest,
  Progress,
} from '@modelcontextprotocol/sdk/types.js'
import { LONGEST_MS } from '../deadline.ts'

type Response = Exclude<JSONRPCMessage, { readonly method: string }>

/** A request that has no answer yet. */
interface OpenRequest {
  /** Undefined once the request has ended: an old table of the map must not keep what the request refers to. */
  end: ((answer: Response | Error) => void) | undefined
  onprogress: ((progress: Progress) => void) | undefined
}

/**
 * The SDK's client with its own table of open requests. The SDK's table takes a third of the CPU time of a call
 * outside of undici: it checks each answer with three schemas before the schema of the result, and starts a timer
 * for each request. Its entries also survive minor garbage collections after the request has ended, because V8 links
 * each table that a `Map` outgrows to the next one. The transports check the shape of a message before it comes here.
 */
export class SessionClient extends Client {
  readonly #open = new Map<number, OpenRequest>()
  #nextId = 0
  /** The transport whose answers come here first. */
  #heard: Transport | undefined

  constructor(info: Implementation, options: ClientOptions) {
    super(info, options)
    this.setNotificationHandler(ProgressNotificationSchema, ({ params }) => {
      const { progressToken, ...progress } = params
      const onprogress = this.#open.get(Number(progressToken))?.onprogress
      if (onprogress === undefined) this.onerror?.(new Error('Progress of an unknown request'))
      else onprogress(progress)
    })
  }

  /**
   * Rejects with the SDK's `McpError` for an error of the server, a cancellation and a closed connection, and with
   * the error of the schema for a result that does not fit. `timeout` is in milliseconds; without one, and with
   * `LONGEST_MS`, the signal alone ends the request.
   */
  override request<T extends AnySchema>(
    request: ClientRequest,
    schema: T,
    options: Pick<RequestOptions, 'signal' | 'timeout' | 'onprogress'> = {},
  ): Promise<SchemaOutput<T>> {
    const { signal, timeout = LONGEST_MS, onprogress } = options
    return new Promise((resolve, reject) => {
      const { transport } = this
      if (transport === undefined) throw new Error('Not connected')
      signal?.throwIfAborted()
      if (transport !== this.#heard) this.#listenTo(transport)
      const id = this.#nextId++
      let timer: NodeJS.Timeout | undefined
      const end = (answer: Response | Error): void => {
        this.#open.delete(id)
        open.end = undefined
        open.onprogress = undefined
        clearTimeout(timer)
        try {
          resolve(resultIn(answer, schema))
        } catch (error) {
          reject(error)
        }
      }
      const open: OpenRequest = { end, onprogress }
      this.#open.set(id, open)
      signal?.addEventListener('abort', () => this.#cancel(id, signal.reason))
      if (timeout < LONGEST_MS) {
        timer = setTimeout(() => {
          this.#cancel(id, new McpError(ErrorCode.RequestTimeout, 'Request timed out', { timeout }))
        }, timeout)
      }
      const message: JSONRPCRequest = { ...request, jsonrpc: '2.0', id }
      if (onprogress !== undefined) {
        const meta = { ...request.params?.['_meta'], progressToken: id }
        message.params = { ...request.params, _meta: meta }
      }
      transport.send(message).catch((error: unknown) => open.end?.(errorFrom(error)))
    })
  }

  #cancel(id: number, reason: unknown): void {
    const open = this.#open.get(id)
    if (open === undefined) return // it has ended before
    const text = String(reason)
    const params = { requestId: id, reason: text }
    this.transport
      ?.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params })
      .catch((cause: unknown) =>
        this.onerror?.(new Error('The cancellation of a request was not sent', { cause })),
      )
    open.end?.(reason instanceof McpError ? reason : new McpError(ErrorCode.RequestTimeout, text))
  }

  /** Takes the answers to requests from here. Everything else is the SDK's. */
  #listenTo(transport: Transport): void {
    this.#heard = transport
    const { onmessage, onclose } = transport
    transport.onmessage = (message, extra) => {
      if ('method' in message) return onmessage?.(message, extra)
      const open = this.#open.get(Number(message.id ?? Number.NaN)) // not 0, which is the id of a request
      if (open?.end === undefined) onmessage?.(message, extra)
      else open.end(message)
    }
    transport.onclose = () => {
      onclose?.()
      const error = McpError.fromError(ErrorCode.ConnectionClosed, 'Connection closed')
      for (const open of this.#open.values()) open.end?.(error)
    }
  }
}

/** @throws McpError for an error of the server; ZodError for a result that does not fit the schema */
function resultIn<T extends AnySchema>(answer: Response | Error, schema: T): SchemaOutput<T> {
  if (answer instanceof Error) throw answer
  if ('error' in answer) {
    const { code, message, data } = answer.error
    throw McpError.fromError(code, message, data)
  }
  // Not by the `safeParse` of the SDK, whose older versions have none.
  if (!('parse' in schema && typeof schema.parse === 'function')) {
    throw new TypeError('The schema of a result has no parse()')
  }
  return schema.parse(answer.result)
}

function errorFrom(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}
