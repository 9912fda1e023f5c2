import type { ServerResponse } from 'node:http'
import type { RpcId } from './rpc-message.ts'

/** A whole HTTP answer, prepared before the request is known. */
export interface CannedAnswer {
  readonly status: number
  /** @default `content-type: application/json` when the body is JSON */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** A function gets the JSON-RPC id of the request. @default no body */
  readonly body?: string | ((rpcId: RpcId) => string) | undefined
}

/** Writes `answer`; `rpcId` is the id of the request it answers. */
export function sendAnswer(
  response: ServerResponse,
  answer: CannedAnswer,
  rpcId: RpcId | undefined = null,
): void {
  const { status, headers, body = '' } = answer
  const text = typeof body === 'function' ? body(rpcId) : body
  response.writeHead(status, { ...contentTypeOf(text), ...headers }).end(text)
}

/** Content type of a body that looks like JSON; nothing for another body. */
export function contentTypeOf(body: string): Record<string, string> {
  return /^[[{]/.test(body) ? { 'content-type': 'application/json' } : {}
}
