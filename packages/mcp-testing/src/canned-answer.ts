import type { ServerResponse } from 'node:http'
import type { RpcId } from './rpc-message.ts'

/** A whole HTTP answer, prepared before the question is known. */
export interface CannedAnswer {
  readonly status: number
  /** @default `content-type: application/json` when the body is JSON */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** A function where the answer echoes the JSON-RPC id of the request. @default no body */
  readonly body?: string | ((rpcId: RpcId) => string) | undefined
}

/** Writes `answer`; `rpcId` is the id of the request it answers. */
export function sendAnswer(
  response: ServerResponse,
  answer: CannedAnswer,
  rpcId: RpcId | undefined = null,
): void {
  const body = typeof answer.body === 'function' ? answer.body(rpcId ?? null) : (answer.body ?? '')
  const json = /^[[{]/.test(body) ? { 'content-type': 'application/json' } : {}
  response.writeHead(answer.status, { ...json, ...answer.headers })
  response.end(body)
}
