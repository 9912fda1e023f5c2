import type { IncomingMessage, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import type { TestServer } from './loopback-server.ts'
import { startTestServer } from './loopback-server.ts'
import type { Recording, WaitForOptions } from './recording.ts'
import type { RpcId, RpcMessage } from './rpc-message.ts'
import { rpcMessageFrom } from './rpc-message.ts'

/** HTTP request that a server or the proxy has recorded. Session ids and tokens are in full. */
export interface RecordedRequest {
  readonly httpMethod: string
  readonly rpcMethod: string | undefined
  readonly rpcId: RpcId | undefined
  /** Tool of a `tools/call`. */
  readonly toolName: string | undefined
  /** Session id that the client sent. */
  readonly sessionId: string | undefined
  readonly protocolVersion: string | undefined
  readonly lastEventId: string | undefined
  /** The bearer token of the request: in a test, the token names the user. */
  readonly principal: string | undefined
  /** Number of the client's TCP connection; the first one is 1. */
  readonly connection: number
  /** Status of the answer. Absent while there is none. */
  readonly status: number | undefined
}

/** Request that was read to its end. */
export interface ReadRequest {
  readonly body: Buffer
  /** Absent when the body is not one JSON-RPC message. */
  readonly message: RpcMessage | undefined
  readonly recorded: RecordedRequest
}

/** Base of the MCP servers and the proxy: a recording of requests. */
export abstract class RecordingServer<
  Entry,
  Log extends Recording<Entry> = Recording<Entry>,
> implements AsyncDisposable {
  protected readonly log: Log
  #http: TestServer | undefined

  constructor(log: Log) {
    this.log = log
  }

  /** Listens. Called once, by the function that starts the server. */
  async start(path = '/mcp'): Promise<void> {
    const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
      this.handle(request, response).catch((error: unknown) => {
        request.socket.destroy()
        throw error // a callback of the test is wrong: the test must fail
      })
    }
    this.#http = await startTestServer(onRequest, path)
  }

  /** On 127.0.0.1. */
  get url(): string {
    return this.server.url
  }

  /** TCP connections of clients so far. */
  get connections(): number {
    return this.server.connections
  }

  /** The first entry that matches, past ones included. Looks again when an answer changes or ends. */
  waitFor(matches: (entry: Entry) => boolean, options?: WaitForOptions): Promise<Entry> {
    return this.log.waitFor(matches, options)
  }

  /** Ends the server and its connections, as `await using` does. */
  close(): Promise<void> {
    return this[Symbol.asyncDispose]()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server[Symbol.asyncDispose]()
    this.log.close()
  }

  protected abstract handle(request: IncomingMessage, response: ServerResponse): Promise<void>

  protected get server(): TestServer {
    if (this.#http === undefined) throw new TypeError('Not started')
    return this.#http
  }
}

/** Reads a request. Returns `undefined` when the client leaves in the middle of it. */
export async function readRequest(
  request: IncomingMessage,
  connection: number,
): Promise<ReadRequest | undefined> {
  const body = await buffer(request).catch(() => undefined)
  if (body === undefined) return undefined
  const { method: httpMethod = '', headers } = request
  const message = httpMethod === 'POST' ? rpcMessageFrom(body.toString()) : undefined
  const toolName = message?.method === 'tools/call' ? message.params?.['name'] : undefined
  const recorded: RecordedRequest = {
    httpMethod,
    rpcMethod: message?.method,
    rpcId: message?.id,
    toolName: typeof toolName === 'string' ? toolName : undefined,
    sessionId: headers['mcp-session-id']?.toString(),
    protocolVersion: headers['mcp-protocol-version']?.toString(),
    lastEventId: headers['last-event-id']?.toString(),
    principal: /^Bearer (.*)$/i.exec(headers.authorization ?? '')?.[1],
    connection,
    status: undefined,
  }
  return { body, message, recorded }
}
