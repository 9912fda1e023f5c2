import { McpError } from '@modelcontextprotocol/sdk/types.js'
import {
  createNoopMeter,
  createTraceState,
  ProxyTracerProvider,
  ROOT_CONTEXT,
  trace,
} from '@opentelemetry/api'
import type { SpanContext } from '@opentelemetry/api'
import { expect, test, vi } from 'vitest'
import { McpClientError } from './errors.ts'
import {
  errorAttributes,
  getTraceContext,
  metricAttributes,
  operationAttributes,
  serverAttributes,
  SessionObserver,
} from './telemetry.ts'

const unknown = {
  url: undefined,
  isChildProcess: false,
  protocolVersion: undefined,
  sessionId: undefined,
}

test('leaves the URI of a resource out of metrics, because it has many values', () => {
  const resource = { method: 'resources/read', resource: 'file:///a' }
  expect(metricAttributes(resource)).toEqual({ 'mcp.method.name': 'resources/read' })
})

test.each([
  ['https://shop.example/a?key=secret', 'https://shop.example/a'],
  ['https://shop.example/a#secret?x', 'https://shop.example/a'],
  ['https://user:secret@shop.example/a', 'https://shop.example/a'],
  ['db://a/b@c', 'db://a/b@c'],
  ['urn:a:b?\nsecret', 'urn:a:b'],
])('reports the URI %j of a resource as %j', (resource, expected) => {
  const attributes = operationAttributes({ method: 'resources/read', resource })
  expect(attributes['mcp.resource.uri']).toBe(expected)
})

test.each([
  ['https://shop.example/mcp?key=secret', 'shop.example', 443],
  ['http://shop.example/mcp', 'shop.example', 80],
  ['http://[::1]:8080/mcp', '[::1]', 8080],
])('reports %s as host and port', (url, address, port) => {
  expect(serverAttributes({ ...unknown, url: new URL(url), sessionId: 'ab12…(36)' })).toEqual({
    'network.transport': 'tcp',
    'network.protocol.name': 'http',
    'server.address': address,
    'server.port': port,
  })
})

test('reports a child process as a pipe, and nothing for an unknown server', () => {
  expect(serverAttributes({ ...unknown, isChildProcess: true })).toEqual({
    'network.transport': 'pipe',
  })
  expect(serverAttributes(unknown)).toEqual({})
})

test('reports the code or name of an error, never its message', () => {
  const lost = new McpClientError('SESSION_LOST', 'lost', { server: 'shop' })
  expect(errorAttributes(lost)).toEqual({ 'error.type': 'SESSION_LOST' })
  expect(errorAttributes(new McpError(-32602, 'secret'))).toEqual({
    'error.type': '-32602',
    'rpc.response.status_code': '-32602',
  })
  expect(errorAttributes(AbortSignal.abort().reason)).toEqual({ 'error.type': 'AbortError' })
  expect(errorAttributes('secret')).toEqual({ 'error.type': 'string' })
})

const span = {
  traceId: '0af7651916cd43dd8448eb211c80319c',
  spanId: 'b7ad6b7169203331',
  traceFlags: 0,
}

function inSpan(given: SpanContext | undefined): ReturnType<typeof getTraceContext> {
  const active = given === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, given)
  const context = { active: () => active, with: <T>(_context: unknown, fn: () => T): T => fn() }
  const metrics = {
    getMeterProvider: () => Promise.reject(new Error('must not be called')) as never,
  }
  return getTraceContext({ trace, context, metrics })
}

test('propagates the trace state', () => {
  const traceState = createTraceState('vendor=1')
  expect(inSpan({ ...span, traceState })?.tracestate).toBe('vendor=1')
  expect(inSpan({ ...span, traceState: createTraceState('') })).not.toHaveProperty('tracestate')
})

test.each([
  ['there is no span', undefined],
  ['the trace id is invalid', { ...span, traceId: '0'.repeat(32) }],
  ['the span id is invalid', { ...span, spanId: '0'.repeat(16) }],
])('propagates nothing if %s', (_what, given) => {
  expect(inSpan(given)).toBeUndefined()
})

test('asks for a tracer only after a provider is registered, also during the life of a session', async () => {
  const provider = new ProxyTracerProvider()
  const getTracer = vi.fn<typeof provider.getTracer>((name) => provider.getTracer(name))
  const api = {
    trace: {
      getTracerProvider: () => provider,
      getTracer,
      setSpan: trace.setSpan,
      getSpanContext: trace.getSpanContext,
    },
    context: {
      active: () => ROOT_CONTEXT,
      with: <T>(_context: unknown, fn: () => T): T => fn(),
    },
    metrics: { getMeterProvider: () => ({ getMeter: createNoopMeter }) },
  }
  const observer = new SessionObserver(api, () => unknown)
  const ping = (): Promise<string> => observer.operation({ method: 'ping' }, async () => 'pong')
  expect(await ping()).toBe('pong')
  expect(getTracer).not.toHaveBeenCalled()
  provider.setDelegate(new ProxyTracerProvider())
  expect(await ping()).toBe('pong')
  expect(getTracer).toHaveBeenCalledOnce()
})
