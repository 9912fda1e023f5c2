import type { TraceContext } from '@x/mcp-transport'
import type { OpenTelemetry } from './open-telemetry.ts'

const NO_TRACE = /^0+$/

/** The active span as W3C Trace Context, in the form that stands in `_meta` (SEP-414). */
export function activeTraceContext({ trace, context }: OpenTelemetry): TraceContext | undefined {
  const span = trace.getSpanContext(context.active())
  if (span === undefined || NO_TRACE.test(span.traceId) || NO_TRACE.test(span.spanId)) {
    return undefined
  }
  const flags = span.traceFlags.toString(16).padStart(2, '0')
  const tracestate = span.traceState?.serialize()
  return {
    traceparent: `00-${span.traceId}-${span.spanId}-${flags}`,
    ...(tracestate === undefined || tracestate === '' ? {} : { tracestate }),
  }
}
