import type { RpcId } from './rpc-message.ts'
import type { OpenResponse } from './recorded-server.ts'

/** What goes on an event stream before the answer. */
export type ScriptedEvent =
  /** A JSON-RPC message; `jsonrpc` is added. */
  | Readonly<Record<string, unknown>>
  /** Written as it is, a comment or a broken event for instance: bring the empty line yourself. */
  | string
  /** Nothing happens until it resolves; what it resolves to is sent too, if it is one of the above. */
  | Promise<Readonly<Record<string, unknown>> | string | void>

/**
 * One HTTP answer. Of `body`, `result` and `error` one is enough; with none of them the body is
 * empty.
 */
export interface ScriptedReply {
  /** @default what the specification has for the `error`: 404 for -32601, 400 for -32602 and for -32020 to -32022; else 200 */
  readonly status?: number | undefined
  /** Added to the content type, or instead of it. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Instead of a JSON-RPC answer. */
  readonly body?: string | ((rpcId: RpcId) => string) | undefined
  /** `resultType: 'complete'` is added, unless the key is there: set to `undefined` it is left out. */
  readonly result?: Readonly<Record<string, unknown>> | undefined
  readonly error?:
    | { readonly code: number; readonly message?: string | undefined; readonly data?: unknown }
    | undefined
  /** Id of the answer. @default that of the request */
  readonly id?: RpcId | undefined
  /** Makes it an event stream, also when empty: these first, then the answer as the last event. */
  readonly events?: readonly ScriptedEvent[] | undefined
  /**
   * Instead of an end with the answer, after the events if there are any: `eof`, a clean end without
   * it; `truncate`, half of it and the end of the connection; `cut`, only the end of the connection,
   * a reset if nothing was sent before; `hang`, nothing until the client leaves.
   *
   * @default 'complete'
   */
  readonly end?: 'complete' | 'eof' | 'truncate' | 'cut' | 'hang' | undefined
}

/** A reply, or none: the names are those of a proxy rule, and both resets mean the same here. */
export type ScriptedAnswer = ScriptedReply | 'hang' | 'reset-before' | 'reset-after'

/** Writes `answer` to the request `rpcId`; returns when there is nothing more to write. */
export async function writeAnswer(
  response: OpenResponse,
  answer: ScriptedAnswer,
  rpcId: RpcId | undefined,
): Promise<void> {
  const reply = replyFrom(answer)
  const body = bodyOf(reply, rpcId)
  if (reply.events === undefined) return writeBody(response, reply, body)

  const { raw, signal } = response
  raw.writeHead(statusOf(reply), { 'content-type': 'text/event-stream', ...reply.headers })
  raw.flushHeaders()
  for (const event of reply.events) {
    const frame = frameOf(event instanceof Promise ? await unlessOver(event, signal) : event)
    if (signal.aborted) return
    if (frame !== '') raw.write(frame)
  }
  finish(response, reply, body === '' ? '' : `event: message\ndata: ${body}\n\n`)
}

function writeBody(response: OpenResponse, reply: ScriptedReply, body: string): void {
  if (reply.end === 'hang') return
  if (reply.end === 'cut') return response.reset()
  const type = /^[[{]/.test(body) ? { 'content-type': 'application/json' } : {}
  response.raw.writeHead(statusOf(reply), { ...type, ...reply.headers })
  finish(response, reply, body)
}

function finish(response: OpenResponse, { end = 'complete' }: ScriptedReply, rest: string): void {
  switch (end) {
    case 'complete':
      response.raw.end(rest)
      return
    case 'eof':
      response.raw.end()
      return
    case 'truncate':
      response.raw.write(rest.slice(0, rest.length / 2))
      response.breakOff()
      return
    case 'cut':
      response.breakOff()
      return
    case 'hang':
      return
  }
}

/** A message or a raw text as it stands on an event stream. */
export function frameOf(event: Readonly<Record<string, unknown>> | string | void): string {
  if (event === undefined) return ''
  if (typeof event === 'string') return event
  return `event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', ...event })}\n\n`
}

function replyFrom(answer: ScriptedAnswer): ScriptedReply {
  if (answer === 'hang') return { end: 'hang' }
  if (answer === 'reset-before' || answer === 'reset-after') return { end: 'cut' }
  return answer
}

function bodyOf(reply: ScriptedReply, rpcId: RpcId | undefined): string {
  const { body, result, error, id = rpcId ?? null } = reply
  if (typeof body === 'function') return body(rpcId ?? null)
  if (body !== undefined) return body
  if (error !== undefined) {
    const { code, message = `Error ${code}`, data } = error
    return JSON.stringify({ jsonrpc: '2.0', id, error: { code, message, data } })
  }
  if (result === undefined) return ''
  return JSON.stringify({ jsonrpc: '2.0', id, result: { resultType: 'complete', ...result } })
}

function statusOf({ status, error }: ScriptedReply): number {
  if (status !== undefined) return status
  switch (error?.code) {
    case -32601:
      return 404
    case -32602:
    case -32020:
    case -32021:
    case -32022:
      return 400
    case undefined:
    default:
      return 200
  }
}

/** The value, or `undefined` as soon as the response is over. */
function unlessOver<Value>(value: Promise<Value>, signal: AbortSignal): Promise<Value | undefined> {
  return new Promise((resolve, reject) => {
    const leave = (): void => resolve(undefined)
    if (signal.aborted) leave()
    signal.addEventListener('abort', leave, { once: true })
    value.finally(() => signal.removeEventListener('abort', leave)).then(resolve, reject)
  })
}
