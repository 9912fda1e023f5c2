import { createTraceState, ROOT_CONTEXT, trace } from '@opentelemetry/api'
import type { SpanContext } from '@opentelemetry/api'
import { expect, test } from 'vitest'
import { activeTraceContext } from './trace-context.ts'

const span = {
  traceId: '0af7651916cd43dd8448eb211c80319c',
  spanId: 'b7ad6b7169203331',
  traceFlags: 0,
}

function inSpan(given: SpanContext | undefined): ReturnType<typeof activeTraceContext> {
  const active = given === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, given)
  const context = { active: () => active, with: <T>(_context: unknown, fn: () => T): T => fn() }
  const metrics = { getMeterProvider: () => Promise.reject(new Error('Not asked for')) as never }
  return activeTraceContext({ trace, context, metrics })
}

test('a span is told as it stands, also one that is not sampled', () => {
  expect(inSpan(span)).toEqual({ traceparent: `00-${span.traceId}-${span.spanId}-00` })
  expect(inSpan({ ...span, traceFlags: 1 })?.traceparent).toMatch(/-01$/)
})

test('the state of the trace goes along', () => {
  const traceState = createTraceState('vendor=1')
  expect(inSpan({ ...span, traceState })?.tracestate).toBe('vendor=1')
  expect(inSpan({ ...span, traceState: createTraceState('') })).not.toHaveProperty('tracestate')
})

test.each([
  ['there is none', undefined],
  ['it is that of no SDK', { ...span, traceId: '0'.repeat(32) }],
  ['it is that of no span', { ...span, spanId: '0'.repeat(16) }],
])('nothing is told where %s', (_what, given) => {
  expect(inSpan(given)).toBeUndefined()
})
