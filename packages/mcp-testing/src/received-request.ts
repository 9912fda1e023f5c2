import type { IncomingMessage } from 'node:http'
import { header } from './request-body.ts'
import type { RpcId, RpcMessage } from './rpc-message.ts'
import { toolNameOf } from './rpc-message.ts'

/** One request as a server saw it. Ids are in full: this is a test tool. */
export interface ReceivedRequest {
  readonly httpMethod: string
  readonly rpcMethod?: string | undefined
  readonly rpcId?: RpcId | undefined
  readonly params?: Readonly<Record<string, unknown>> | undefined
  /** Tool of a `tools/call`. */
  readonly toolName?: string | undefined
  readonly sessionId?: string | undefined
  readonly protocolVersion?: string | undefined
  readonly lastEventId?: string | undefined
  readonly accept?: string | undefined
  /** All headers, names in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  /** Number of the TCP connection it came on; the first one is 1. */
  readonly connection: number
}

/** What there is to tell about a request whose body is read; `message` only for a POST. */
export function receivedRequestFrom(
  request: IncomingMessage,
  message: RpcMessage | undefined,
  connection: number,
): ReceivedRequest {
  return {
    httpMethod: request.method ?? '',
    rpcMethod: message?.method,
    rpcId: message?.id,
    params: message?.params,
    toolName: toolNameOf(message),
    sessionId: header(request, 'mcp-session-id'),
    protocolVersion: header(request, 'mcp-protocol-version'),
    lastEventId: header(request, 'last-event-id'),
    accept: header(request, 'accept'),
    headers: request.headers,
    connection,
  }
}

/** How many of the requests have this JSON-RPC method (`tools/call`) or HTTP method (`GET`). */
export function countOfMethod(received: readonly ReceivedRequest[], method: string): number {
  return received.filter((one) => one.rpcMethod === method || one.httpMethod === method).length
}
