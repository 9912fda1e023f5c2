import { INPUT_META_KEY } from '@x/mcp-transport'
import type { JsonRpcMessage, TraceContext } from '@x/mcp-transport'

export interface OutgoingMessage {
  readonly message: JsonRpcMessage
  /** It continues a call that was surfaced, which only servers of 2026-07-28 know. */
  readonly isContinuation: boolean
}

/** The message as the server shall see it: without what was meant for the transport, with the caller's trace. */
export function outgoingMessage(
  message: JsonRpcMessage,
  trace: TraceContext | undefined,
): OutgoingMessage {
  if (!('method' in message)) return { message, isContinuation: false }
  const { _meta: given, ...params } = message.params ?? {}
  const { [INPUT_META_KEY]: input, ...meta } = isObject(given) ? given : {}
  const isContinuation = isObject(input) && input['answers'] !== undefined
  const isTraced = trace !== undefined && meta['traceparent'] === undefined
  if (input === undefined && !isTraced) return { message, isContinuation }
  const own = isTraced ? { ...meta, ...definedOf(trace) } : meta
  const isEmpty = Object.keys(own).length === 0
  const sent = { ...message, params: isEmpty ? params : { ...params, _meta: own } }
  return { message: sent, isContinuation }
}

function definedOf({ traceparent, tracestate }: TraceContext): TraceContext {
  return { traceparent, ...(tracestate === undefined ? {} : { tracestate }) }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
