import { expect, test } from 'vitest'
import { withTraceContext } from './trace-context.ts'

const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'pay' } } as const

test('the trace goes into _meta, beside what is there', () => {
  const message = { ...call, params: { ...call.params, _meta: { progressToken: 1 } } }
  expect(withTraceContext(message, { traceparent, tracestate: 'a=b' })).toEqual({
    ...call,
    params: { name: 'pay', _meta: { progressToken: 1, traceparent, tracestate: 'a=b' } },
  })
})

test('a trace that the caller wrote there stays', () => {
  const message = { ...call, params: { ...call.params, _meta: { traceparent: 'mine' } } }
  expect(withTraceContext(message, { traceparent })).toBe(message)
})

test('no trace, and no place for one, change nothing', () => {
  expect(withTraceContext(call, undefined)).toBe(call)
  const answer = { jsonrpc: '2.0', id: 1, result: {} } as const
  expect(withTraceContext(answer, { traceparent })).toBe(answer)
})
