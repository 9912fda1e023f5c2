import type * as OpenTelemetry from '@opentelemetry/api'

import { packageVersion } from '../version.ts'
import type { GatewayObserver, ObservedCall, TraceCarrier } from '../internal/observer.ts'

/**
 * A span for each call, below the span of the client (`traceparent` in `_meta`, or as a header) and above whatever
 * the agent does with the trace that it gets. Follows the semantic conventions for MCP and GenAI. For
 * `createGateway({ observer: await callSpans() })`.
 *
 * @returns `undefined` where `@opentelemetry/api` is not installed; without an SDK behind it, spans are nothing
 */
export async function callSpans(): Promise<GatewayObserver | undefined> {
  const api = await loadApi()
  if (api === undefined) return undefined
  const { context, propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } = api
  const spans = new WeakMap<ObservedCall, OpenTelemetry.Span>()
  return {
    callStarted: (call) => {
      const parent = call.trace ? propagation.extract(ROOT_CONTEXT, call.trace) : context.active()
      const name = call.isKnown ? `tools/call ${call.tool}` : 'tools/call'
      const attributes = {
        'mcp.method.name': 'tools/call',
        'gen_ai.operation.name': 'execute_tool',
        ...(call.isKnown && { 'gen_ai.tool.name': call.tool }),
        'mcp.gateway.era': call.era,
      }
      // Asked each time: an SDK may be registered after us.
      const tracer = trace.getTracer('mcp-gateway', packageVersion())
      const span = tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, parent)
      spans.set(call, span)
      const carrier: Record<string, string> = {}
      propagation.inject(trace.setSpan(parent, span), carrier)
      return withOwn(call.trace, carrier)
    },
    activate: (call, run) => {
      const span = spans.get(call)
      if (span === undefined) return run()
      const parent = call.trace
        ? propagation.extract(context.active(), call.trace)
        : context.active()
      context.with(trace.setSpan(parent, span), run)
    },
    callEnded: (call, { outcome, runId }) => {
      const span = spans.get(call)
      if (span === undefined) return
      spans.delete(call)
      if (runId !== undefined) span.setAttribute('mcp.gateway.run.id', runId)
      if (outcome !== 'ok' && outcome !== 'asked') {
        span.setAttribute('error.type', outcome)
        span.setStatus({ code: SpanStatusCode.ERROR })
      }
      span.end()
    },
  }
}

/** Without a propagator nothing is written, and the trace of the client goes on as it came. */
function withOwn(theirs: TraceCarrier | undefined, own: TraceCarrier): TraceCarrier | undefined {
  return Object.keys(own).length === 0 ? theirs : own
}

async function loadApi(): Promise<typeof OpenTelemetry | undefined> {
  try {
    return await import('@opentelemetry/api')
  } catch {
    return undefined
  }
}
