import type { AnySchema, SchemaOutput } from '@modelcontextprotocol/sdk/server/zod-compat.js'
import { Protocol } from '@modelcontextprotocol/sdk/shared/protocol.js'
import type { RequestOptions } from '@modelcontextprotocol/sdk/shared/protocol.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import {
  ErrorCode,
  InitializeResultSchema,
  LATEST_PROTOCOL_VERSION,
  McpError,
  ProgressNotificationSchema,
  SUPPORTED_PROTOCOL_VERSIONS,
} from '@modelcontextprotocol/sdk/types.js'
import type {
  ClientCapabilities,
  ClientNotification,
  ClientRequest,
  ClientResult,
  Implementation,
  JSONRPCMessage,
  JSONRPCRequest,
  Progress,
} from '@modelcontextprotocol/sdk/types.js'
import { isRecord, removeFrom } from '@x/internal'
import { TransportError } from '@x/mcp-transport'
import type { StreamableHttpTransport } from '@x/mcp-transport'
import { LONGEST_MS } from './deadline.ts'
import { UnreadableResult } from './errors.ts'

type Response = Exclude<JSONRPCMessage, { readonly method: string }>

/** A schema that checks the result of a request, such as those of the SDK. */
export interface ResultSchema<T> {
  parse(result: unknown): T
}

/** As for the SDK's client. Without `timeout`, only the signal ends the request. */
export type SendOptions = {
  readonly [Name in 'signal' | 'timeout' | 'onprogress']?: RequestOptions[Name] | undefined
}

/** A request without a response. */
interface OpenRequest {
  readonly id: number
  /** Settles the request. Later calls do nothing. */
  readonly end: (answer: Response | Error) => void
  readonly onprogress: ((progress: Progress) => void) | undefined
}

/**
 * A client on the SDK's `Protocol`, with its own table of open requests. The SDK's table takes a third of the CPU time
 * that a call needs outside of undici: it checks each response with three schemas before the schema of the result, starts
 * a timer for each request, and uses a `Map` (see `removeFrom()`). The transports have checked the shape of each message.
 *
 * Not the SDK's `Client`, which loads Ajv: a tenth of a bundle, for checks that this package does by itself.
 */
export class SessionClient extends Protocol<ClientRequest, ClientNotification, ClientResult> {
  readonly #open: OpenRequest[] = []
  readonly #info: Implementation
  readonly #capabilities: ClientCapabilities
  #nextId = 0
  /** The transport whose responses this client handles. */
  #transport: Transport | undefined

  constructor(info: Implementation, capabilities: ClientCapabilities = {}) {
    super()
    this.#info = info
    this.#capabilities = capabilities
    this.setNotificationHandler(ProgressNotificationSchema, ({ params }) => {
      const { progressToken, ...progress } = params
      const onprogress = this.#find(Number(progressToken))?.onprogress
      if (onprogress === undefined) this.onerror?.(new Error('Progress of an unknown request'))
      else onprogress(progress)
    })
  }

  /** Sends `initialize` and `notifications/initialized`, or nothing if the transport resumes a session. */
  override async connect(transport: Transport, options?: SendOptions): Promise<void> {
    await super.connect(transport)
    if (transport.sessionId !== undefined) return
    try {
      const params = {
        protocolVersion: LATEST_PROTOCOL_VERSION,
        capabilities: this.#capabilities,
        clientInfo: this.#info,
      }
      const request = { method: 'initialize', params }
      const { protocolVersion } = await this.send(request, InitializeResultSchema, options)
      if (!SUPPORTED_PROTOCOL_VERSIONS.includes(protocolVersion)) {
        throw new Error(`The server chose protocol version ${protocolVersion}: it is not supported`)
      }
      transport.setProtocolVersion?.(protocolVersion)
      await this.notification({ method: 'notifications/initialized' })
    } catch (error) {
      void this.close()
      throw error
    }
  }

  override request<T extends AnySchema>(
    request: ClientRequest,
    schema: T,
    options?: RequestOptions,
  ): Promise<SchemaOutput<T>> {
    // Not `safeParse` of the SDK, which older versions do not have.
    if (!('parse' in schema && typeof schema.parse === 'function')) {
      throw new TypeError('The schema of a result has no parse()')
    }
    const parse: ResultSchema<SchemaOutput<T>>['parse'] = schema.parse.bind(schema)
    return this.send(request, { parse }, options)
  }

  /**
   * Sends a request and returns its result. Rejects with the SDK's `McpError` for an error of the server, a
   * cancellation and a closed connection, and with `UnreadableResult` for a result that does not fit the schema. The
   * `data` of the error is a `TransportError` if a request was cancelled before it was sent.
   */
  send<T>(
    request: { readonly method: string; readonly params?: Record<string, unknown> | undefined },
    schema: ResultSchema<T>,
    { signal, timeout = LONGEST_MS, onprogress }: SendOptions = {},
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      const { transport } = this
      if (transport === undefined) throw new Error('Not connected')
      signal?.throwIfAborted()
      if (transport !== this.#transport) this.#listenTo(transport)
      const id = this.#nextId++
      let timer: NodeJS.Timeout | undefined
      const onAbort = signal === undefined ? undefined : (): void => this.#cancel(id, signal.reason)
      const end = (answer: Response | Error): void => {
        if (!removeFrom(this.#open, open)) return
        clearTimeout(timer)
        // One signal may serve thousands of requests.
        if (onAbort !== undefined) signal?.removeEventListener('abort', onAbort)
        try {
          resolve(readResult(schema, resultOf(answer)))
        } catch (error) {
          reject(error)
        }
      }
      const open: OpenRequest = { id, end, onprogress }
      this.#open.push(open)
      if (onAbort !== undefined) signal?.addEventListener('abort', onAbort)
      if (timeout < LONGEST_MS) {
        timer = setTimeout(() => {
          this.#cancel(id, 'Request timed out', { timeout })
        }, timeout)
      }
      const message: JSONRPCRequest = { ...request, jsonrpc: '2.0', id }
      if (onprogress !== undefined) {
        const meta = request.params?.['_meta']
        message.params = {
          ...request.params,
          _meta: { ...(isRecord(meta) && meta), progressToken: id },
        }
      }
      // `StreamableHttpTransport.send()`, or `StdioTransport.send()` for a child process
      transport.send(message).catch((error: unknown) => open.end(toError(error)))
    })
  }

  // `McpClient` declares a capability for each handler, and leaves it to the server to refuse what it does not support.
  protected override assertCapabilityForMethod(): void {}
  protected override assertNotificationCapability(): void {}
  protected override assertRequestHandlerCapability(): void {}
  protected override assertTaskCapability(): void {}
  protected override assertTaskHandlerCapability(): void {}

  #find(id: number): OpenRequest | undefined {
    return this.#open.find((open) => open.id === id)
  }

  #cancel(id: number, reason: unknown, data?: unknown): void {
    const open = this.#find(id)
    if (open === undefined) return // the request has ended
    const text = String(reason)
    if (canWithdraw(this.transport) && this.transport.withdraw(id)) {
      const message = 'The request was cancelled before it was sent'
      const unsent = new TransportError('CLOSED', message, { outcome: 'not-executed' })
      return open.end(new McpError(ErrorCode.RequestTimeout, text, unsent))
    }
    const params = { requestId: id, reason: text }
    this.transport
      ?.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params })
      .catch((cause: unknown) =>
        this.onerror?.(new Error('The cancellation of a request was not sent', { cause })),
      )
    open.end(
      reason instanceof McpError ? reason : new McpError(ErrorCode.RequestTimeout, text, data),
    )
  }

  /** Handles responses to own requests; the SDK handles all other messages. */
  #listenTo(transport: Transport): void {
    this.#transport = transport
    const { onmessage, onclose } = transport
    transport.onmessage = (message, extra) => {
      if ('method' in message) return onmessage?.(message, extra)
      const open = this.#find(Number(message.id ?? Number.NaN)) // 0 is the id of a request
      if (open === undefined) onmessage?.(message, extra)
      else open.end(message)
    }
    transport.onclose = () => {
      onclose?.()
      const error = McpError.fromError(ErrorCode.ConnectionClosed, 'Connection closed')
      for (const open of this.#open.slice()) open.end(error)
    }
  }
}

/** False for a child process: it gets each request at once. */
function canWithdraw(
  transport: object | undefined,
): transport is Pick<StreamableHttpTransport, 'withdraw'> {
  return transport !== undefined && 'withdraw' in transport
}

/** @throws McpError for an error of the server */
function resultOf(answer: Response | Error): unknown {
  if (answer instanceof Error) throw answer
  if ('error' in answer) {
    const { code, message, data } = answer.error
    throw McpError.fromError(code, message, data)
  }
  return answer.result
}

/** @throws UnreadableResult if the schema refuses the result */
export function readResult<T>(schema: ResultSchema<T>, result: unknown): T {
  try {
    return schema.parse(result)
  } catch (error) {
    // Other errors are mistakes in a schema of the caller.
    throw error instanceof Error && 'issues' in error ? new UnreadableResult(result, error) : error
  }
}

function toError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}
