import { START, StateGraph } from '@langchain/langgraph'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { context, propagation, SpanStatusCode, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import { afterEach, beforeEach, expect, test } from 'vitest'
import * as z from 'zod'

import { AgentsAtHand, echo } from '../../test/agents-at-hand.ts'
import { createGateway } from '../gateway.ts'
import type { ObservedCall } from '../internal/observer.ts'
import { callSpans, registeredSpans } from './call-spans.ts'

const TRACE_ID = '0af7651916cd43dd8448eb211c80319c'
const PARENT = 'b7ad6b7169203331'
const TRACE = { traceparent: `00-${TRACE_ID}-${PARENT}-01`, tracestate: 'vendor=1' }

let exporter: InMemorySpanExporter

beforeEach(() => {
  exporter = new InMemorySpanExporter()
})

afterEach(() => {
  trace.disable()
  propagation.disable()
  context.disable()
})

/** What `node --import ./tracing.js` does. */
function registerSdk(): void {
  const spanProcessors = [new SimpleSpanProcessor({ exporter })]
  trace.setGlobalTracerProvider(new TracerProvider({ spanProcessors }))
  propagation.setGlobalPropagator(new W3CTraceContextPropagator())
}

interface Sent {
  readonly mode: 'legacy' | { readonly pin: '2026-07-28' }
  readonly meta?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
}

/** Calls an agent. @returns the trace that the agent got */
async function call({ mode, meta, headers = {} }: Sent): Promise<unknown> {
  const agents = new AgentsAtHand({ echo })
  await using gateway = createGateway({ sources: [agents], observer: await callSpans() })
  const { url } = await gateway.listen({ port: 0 })
  const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } })
  await client.connect(
    new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { ...headers } } }),
  )
  await client.callTool({
    name: 'echo',
    arguments: { message: 'Hello' },
    ...(meta && { _meta: { ...meta } }),
  })
  await client.close()
  return agents.calls[0]?.trace
}

const MODES = ['legacy', { pin: '2026-07-28' }] as const

test.each(MODES)(
  'makes a span for a call, between the spans of client and agent: %j',
  async (mode) => {
    registerSdk()
    const handedOn = await call({ mode, meta: TRACE, headers: { traceparent: 'not this one' } })
    const [span, ...others] = exporter.getFinishedSpans()
    expect(others).toEqual([])
    expect(span).toMatchObject({ name: 'tools/call echo', parentSpanContext: { spanId: PARENT } })
    const own = span?.spanContext()
    expect(own?.traceId).toBe(TRACE_ID)
    const traceparent = `00-${TRACE_ID}-${own?.spanId}-01`
    expect(handedOn).toEqual({ traceparent, tracestate: 'vendor=1' })
  },
)

test.each(MODES)('continues a trace that a client sends as headers: %j', async (mode) => {
  registerSdk()
  await call({ mode, headers: TRACE })
  const [span] = exporter.getFinishedSpans()
  expect(span?.parentSpanContext).toMatchObject({ spanId: PARENT, traceId: TRACE_ID })
})

test.each(MODES)(
  'makes spans of a graph node children of the span of its call: %j',
  async (mode) => {
    registerSdk()
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
    const graph = new StateGraph(z.object({ message: z.string() }))
      .addNode('work', async () => {
        trace.getTracer('graph').startSpan('inside').end()
        return {}
      })
      .addEdge(START, 'work')
      .compile()
    await using gateway = createGateway({
      agents: { echo: { graph, description: 'Works' } },
      observer: await callSpans(),
    })
    const { url } = await gateway.listen({ port: 0 })
    const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } })
    await client.connect(new StreamableHTTPClientTransport(new URL(url)))
    const ask = (traceparent: string): Promise<unknown> => {
      const args = { message: 'Hello' }
      return client.callTool({ name: 'echo', arguments: args, _meta: { traceparent } })
    }
    const other = TRACE.traceparent.replace(TRACE_ID, 'f'.repeat(32))
    await Promise.all([ask(TRACE.traceparent), ask(other)])
    await client.close()

    const spans = exporter.getFinishedSpans()
    const inner = spans.filter(({ name }) => name === 'inside')
    const parents = inner.map(({ parentSpanContext }) => {
      const parent = spans.find((each) => each.spanContext().spanId === parentSpanContext?.spanId)
      return [parent?.name, parent?.spanContext().traceId]
    })
    expect(new Map(parents.map(([name, id]) => [id, name]))).toEqual(
      new Map([
        [TRACE_ID, 'tools/call echo'],
        ['f'.repeat(32), 'tools/call echo'],
      ]),
    )
  },
)

test('begins a trace for a client without one', async () => {
  registerSdk()
  const handedOn = await call({ mode: MODES[1] })
  const [span] = exporter.getFinishedSpans()
  expect(span?.parentSpanContext).toBeUndefined()
  expect(handedOn).toEqual({
    traceparent: expect.stringContaining(span?.spanContext().spanId ?? '-'),
  })
})

test('passes the trace of the client to the agent without an SDK', async () => {
  expect(await call({ mode: MODES[1], meta: TRACE })).toEqual(TRACE)
})

const OBSERVED: ObservedCall = {
  tool: 'support',
  isKnown: true,
  principal: 'somebody',
  isAnonymous: false,
  era: 'modern',
  address: undefined,
  trace: undefined,
}

test.each([
  ['ok', SpanStatusCode.UNSET],
  ['asked', SpanStatusCode.UNSET],
  ['agent_failed', SpanStatusCode.ERROR],
  ['cancelled', SpanStatusCode.ERROR],
])('sets the status of the span of a call that ended with %s to %i', async (outcome, code) => {
  registerSdk()
  const spans = await callSpans()
  spans?.callStarted?.(OBSERVED)
  const end = { runId: 'run_1', durationMs: 1, requestBytes: 1, resultBytes: 1 }
  spans?.callEnded?.(OBSERVED, { ...end, outcome })
  const [span] = exporter.getFinishedSpans()
  expect(span?.status.code).toBe(code)
  expect(span?.attributes['mcp.gateway.run.id']).toBe('run_1')
  const error = code === SpanStatusCode.ERROR ? outcome : undefined
  expect(span?.attributes['error.type']).toBe(error)
  expect(JSON.stringify(span?.attributes)).not.toContain('somebody')
})

test('makes spans in the command only if an SDK is registered', async () => {
  expect(await registeredSpans()).toEqual({})
  registerSdk()
  const spans = await registeredSpans()
  expect(spans.callStarted?.(OBSERVED)).toHaveProperty('traceparent')
})
