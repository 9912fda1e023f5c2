import { context, propagation, SpanStatusCode, trace } from '@opentelemetry/api'
import type { TextMapPropagator } from '@opentelemetry/api'
import { TracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace'
import { afterEach, expect, test } from 'vitest'

import { callSpans } from './call-spans.ts'
import type { ObservedCall } from '../internal/observer.ts'

const TRACE_ID = '0af7651916cd43dd8448eb211c80319c'
const SPAN_ID = 'b7ad6b7169203331'
const CALL: ObservedCall = {
  tool: 'support',
  isKnown: true,
  principal: 'somebody',
  isAnonymous: false,
  era: 'modern',
  trace: { traceparent: `00-${TRACE_ID}-${SPAN_ID}-01` },
}
const END = { runId: 'run_1', durationMs: 1, requestBytes: 1, resultBytes: 1 }

/** W3C Trace Context, the one header of it. */
const propagator: TextMapPropagator = {
  fields: () => ['traceparent'],
  inject: (from, carrier, setter) => {
    const span = trace.getSpanContext(from)
    if (span) setter.set(carrier, 'traceparent', `00-${span.traceId}-${span.spanId}-01`)
  },
  extract: (into, carrier, getter) => {
    const [, traceId = '', spanId = ''] = String(getter.get(carrier, 'traceparent')).split('-')
    return trace.setSpanContext(into, { traceId, spanId, traceFlags: 1, isRemote: true })
  },
}

afterEach(() => {
  trace.disable()
  propagation.disable()
  context.disable()
})

test("makes the span of a call a child of the client's span, and the parent of the agent's spans", async () => {
  const exporter = new InMemorySpanExporter()
  trace.setGlobalTracerProvider(
    new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }),
  )
  propagation.setGlobalPropagator(propagator)
  const spans = await callSpans()
  const handedOn = spans?.callStarted?.(CALL)
  spans?.callEnded?.(CALL, { ...END, outcome: 'timeout' })
  const [span] = exporter.getFinishedSpans()
  expect(span?.name).toBe('tools/call support')
  expect(span?.spanContext().traceId).toBe(TRACE_ID)
  expect(span?.parentSpanContext?.spanId).toBe(SPAN_ID)
  expect(span?.attributes).toMatchObject({ 'error.type': 'timeout', 'mcp.gateway.run.id': 'run_1' })
  expect(handedOn).toEqual({ traceparent: `00-${TRACE_ID}-${span?.spanContext().spanId}-01` })
  expect(JSON.stringify(span?.attributes)).not.toContain('somebody')
})

test.each([
  ['ok', SpanStatusCode.UNSET],
  ['asked', SpanStatusCode.UNSET],
  ['agent_failed', SpanStatusCode.ERROR],
  ['cancelled', SpanStatusCode.ERROR],
])('sets the status of the span of a call that ended with %s to %i', async (outcome, code) => {
  const exporter = new InMemorySpanExporter()
  trace.setGlobalTracerProvider(
    new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }),
  )
  const spans = await callSpans()
  spans?.callStarted?.(CALL)
  spans?.callEnded?.(CALL, { ...END, outcome })
  expect(exporter.getFinishedSpans()).toMatchObject([{ status: { code } }])
})

test('passes on the trace of the client unchanged without an SDK', async () => {
  const spans = await callSpans()
  expect(spans?.callStarted?.(CALL)).toEqual(CALL.trace)
  spans?.callEnded?.(CALL, { ...END, outcome: 'ok' })
})
