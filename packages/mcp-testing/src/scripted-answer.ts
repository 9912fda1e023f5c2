import type { CannedAnswer } from './canned-answer.ts'
import { contentTypeOf } from './canned-answer.ts'
import type { OpenResponse } from './recorded-server.ts'
import type { RpcId } from './rpc-message.ts'

/** Part of an event stream before the answer. */
export type ScriptedEvent =
  /** A JSON-RPC message; `jsonrpc` is added. */
  | Readonly<Record<string, unknown>>
  /** Raw text, such as a comment or a broken event. No empty line is added. */
  | string
  /** The stream waits until it resolves; its value is sent, if there is one. */
  | Promise<Readonly<Record<string, unknown>> | string | void>

/** One HTTP answer: `body`, `result` or `error`. Without them the body is empty. */
export interface ScriptedAnswer extends Pick<CannedAnswer, 'headers' | 'body'> {
  /** @default the status of the specification for an `error` (404 or 400), else 200 */
  readonly status?: number | undefined
  /** `resultType: 'complete'` is added. Set `resultType: undefined` to leave it out. */
  readonly result?: Readonly<Record<string, unknown>> | undefined
  readonly error?:
    | { readonly code: number; readonly message?: string | undefined; readonly data?: unknown }
    | undefined
  /** Id of the answer. @default that of the request */
  readonly id?: RpcId | undefined
  /** Makes the answer an event stream, even if empty: these events first, then the answer. */
  readonly events?: readonly ScriptedEvent[] | undefined
  /**
   * How the response ends after the events. `complete`: with the answer. `eof`: without it. `truncate`:
   * half of it, then the end of the connection. `cut`: the end of the connection, a reset if nothing
   * was sent before. `hang`: not at all.
   *
   * @default 'complete'
   */
  readonly end?: 'complete' | 'eof' | 'truncate' | 'cut' | 'hang' | undefined
}

/** Status that 2026-07-28 prescribes for an error code; 200 for others. */
const errorStatus = new Map([
  [-32601, 404],
  [-32602, 400],
  [-32020, 400],
  [-32021, 400],
  [-32022, 400],
])

/** Writes `answer` to the request `rpcId`. Resolves when nothing more will be written. */
export async function writeAnswer(
  response: OpenResponse,
  answer: ScriptedAnswer,
  rpcId: RpcId | undefined,
): Promise<void> {
  const { status = errorStatus.get(answer.error?.code ?? 0) ?? 200, events, end } = answer
  const { raw, signal } = response
  const body = bodyOf(answer, rpcId)
  if (events === undefined) {
    if (end === 'hang') return
    if (end === 'cut') return response.reset()
    raw.writeHead(status, { ...contentTypeOf(body), ...answer.headers })
    return finish(response, answer, body)
  }
  raw.writeHead(status, { 'content-type': 'text/event-stream', ...answer.headers })
  raw.flushHeaders()
  for (const event of events) {
    const frame = frameOf(await Promise.race([event, response.over]))
    if (signal.aborted) return
    if (frame !== '') raw.write(frame)
  }
  finish(response, answer, body === '' ? '' : `event: message\ndata: ${body}\n\n`)
}

function finish(response: OpenResponse, { end = 'complete' }: ScriptedAnswer, rest: string): void {
  if (end === 'hang') return
  if (end === 'complete' || end === 'eof') {
    response.raw.end(end === 'complete' ? rest : '')
    return
  }
  if (end === 'truncate') response.raw.write(rest.slice(0, rest.length / 2))
  response.breakOff()
}

/** A message or a raw text as it stands on an event stream. */
export function frameOf(event: Readonly<Record<string, unknown>> | string | void): string {
  if (event === undefined) return ''
  if (typeof event === 'string') return event
  return `event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', ...event })}\n\n`
}

function bodyOf(answer: ScriptedAnswer, rpcId: RpcId | undefined): string {
  const { body, result, error, id = rpcId ?? null } = answer
  if (typeof body === 'function') return body(rpcId ?? null)
  if (body !== undefined) return body
  if (error !== undefined) {
    const { code, message = `Error ${code}`, data } = error
    return JSON.stringify({ jsonrpc: '2.0', id, error: { code, message, data } })
  }
  if (result === undefined) return ''
  return JSON.stringify({ jsonrpc: '2.0', id, result: { resultType: 'complete', ...result } })
}
