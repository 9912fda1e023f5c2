import { isRecord } from './is-record.ts'

/** Extension whose tasks outlive the request that created them. Named in the capabilities of both sides. */
export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks'

/** Key in the `_meta` of a list of tools, with `{ name, reason }` of the tools that the transport left out. */
export const LEFT_OUT_META_KEY = 'mcp-transport/left-out-tools'

/** Position of the caller in a distributed trace (W3C Trace Context). */
export interface TraceContext {
  readonly traceparent: string
  readonly tracestate?: string | undefined
}

/** Adds the current trace to `_meta` of a request or notification. An existing trace is kept. */
export function withTraceContext<Message extends object>(
  message: Message,
  getTrace: (() => TraceContext | undefined) | undefined,
): Message {
  const trace = getTrace?.()
  if (trace === undefined || !('method' in message)) return message
  const params = 'params' in message && isRecord(message.params) ? message.params : {}
  const meta = isRecord(params['_meta']) ? params['_meta'] : {}
  if (meta['traceparent'] !== undefined) return message
  const { traceparent, tracestate } = trace
  const added = { traceparent, ...(tracestate === undefined ? {} : { tracestate }) }
  return { ...message, params: { ...params, _meta: { ...meta, ...added } } }
}
