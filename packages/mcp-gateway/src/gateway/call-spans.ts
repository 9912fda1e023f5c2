import { isRecord, readPackageVersion } from '@x/internal'
import type * as OpenTelemetry from '@opentelemetry/api'

import type { GatewayObserver, ObservedCall } from '../internal/observer.ts'

/**
 * Makes a span for each call: a child of the span of the client (`traceparent` in `_meta`, or as a header), and the
 * parent of the spans of the agent. Follows the semantic conventions for MCP and GenAI. For
 * `createGateway({ observer: await callSpans() })`.
 *
 * @returns `undefined` if `@opentelemetry/api` is not installed. Without an SDK, the spans have no effect
 * @example
 * ```ts
 * import { callSpans, createGateway } from '@x/mcp-gateway'
 *
 * const gateway = createGateway({ observer: await callSpans() })
 * ```
 */
export async function callSpans(): Promise<GatewayObserver | undefined> {
  const api = await loadApi()
  if (api === undefined) return undefined
  const { context, propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } = api
  const version = readPackageVersion(import.meta.url)
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
      // Looked up each time, because an SDK may be registered later.
      const tracer = trace.getTracer('mcp-gateway', version)
      const span = tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, parent)
      spans.set(call, span)
      const carrier: Record<string, string> = {}
      propagation.inject(trace.setSpan(parent, span), carrier)
      // Without a propagator, the agent gets the trace of the client.
      return Object.keys(carrier).length === 0 ? call.trace : carrier
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

async function loadApi(): Promise<typeof OpenTelemetry | undefined> {
  try {
    return await import('@opentelemetry/api')
  } catch {
    return undefined
  }
}

/** Returns the same, without loading the library, for a process that has no OpenTelemetry SDK. */
export async function registeredSpans(): Promise<GatewayObserver> {
  // All copies of version 1 of the API keep the registered SDK in this place.
  const api: unknown = Reflect.get(globalThis, Symbol.for('opentelemetry.js.api.1'))
  const isTraced = isRecord(api) && api['trace'] !== undefined
  return (isTraced && (await callSpans())) || {}
}
