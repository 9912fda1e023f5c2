import { isRecord } from '@x/internal'
import type { JsonRpcMessage } from './json-rpc.ts'

/** The caller's place in a distributed trace (W3C Trace Context). */
export interface TraceContext {
  readonly traceparent: string
  readonly tracestate?: string | undefined
}

/** The message with the trace in its `_meta`, where servers look for it; one that is there already stays. */
export function withTraceContext(
  message: JsonRpcMessage,
  trace: TraceContext | undefined,
): JsonRpcMessage {
  if (trace === undefined || !('method' in message)) return message
  const given = message.params?.['_meta']
  const meta = isRecord(given) ? given : {}
  if (meta['traceparent'] !== undefined) return message
  const { traceparent, tracestate } = trace
  const added = { traceparent, ...(tracestate === undefined ? {} : { tracestate }) }
  return { ...message, params: { ...message.params, _meta: { ...meta, ...added } } }
}
