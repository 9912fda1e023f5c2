import { join } from 'node:path'
import { inspect } from 'node:util'
import { temporaryFolder } from '@x/internal/testing'
import { SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { AlwaysOffSampler } from '@opentelemetry/sdk-trace'
import { startLegacyServer, startModernServer, startRecordingProxy } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { McpClient } from '../src/index.ts'
import { recordOpenTelemetry } from './open-telemetry-recorder.ts'
import { inFile } from './session-stores.ts'
import { is, rejectionOf, startSetting } from './setting.ts'

const tracer = trace.getTracer('test')

test('creates a span for a call below the span of the caller, with the handshake in it, and sends the trace context', async () => {
  await using telemetry = recordOpenTelemetry()
  await using server = await startLegacyServer()
  await using client = new McpClient({ url: server.url })
  await tracer.startActiveSpan('agent', async (span) => {
    await client.callTool('echo', { text: 'x' })
    span.end()
  })
  const [handshake, call, agent] = telemetry.spans()
  const sessionId = (await client.getSessionId()) ?? ''
  const { hostname, port } = new URL(server.url)
  const attributes = {
    'network.transport': 'tcp',
    'network.protocol.name': 'http',
    'server.address': hostname,
    'server.port': Number(port),
    'mcp.protocol.version': '2025-11-25',
    'mcp.session.id': `${sessionId.slice(0, 4)}…(${sessionId.length})`,
  }
  expect(call).toMatchObject({
    name: 'tools/call echo',
    kind: SpanKind.CLIENT,
    status: { code: SpanStatusCode.UNSET },
    parentSpanContext: { spanId: agent?.spanContext().spanId },
  })
  expect(call?.attributes).toEqual({
    ...attributes,
    'mcp.method.name': 'tools/call',
    'gen_ai.tool.name': 'echo',
    'gen_ai.operation.name': 'execute_tool',
  })
  const { traceId, spanId } = call?.spanContext() ?? {}
  expect(handshake).toMatchObject({ name: 'initialize', parentSpanContext: { spanId } })
  expect(handshake?.attributes).toEqual({ ...attributes, 'mcp.method.name': 'initialize' })
  const [received] = server.received.filter(is.method('tools/call'))
  expect(received?.params).toMatchObject({ _meta: { traceparent: `00-${traceId}-${spanId}-01` } })
})

test('reports the errors of a tool, a server and a connection', async () => {
  await using telemetry = recordOpenTelemetry()
  await using setting = await startSetting()
  const { client, proxy } = setting
  await client.callTool('fail')
  await rejectionOf(client.callTool('none'))
  const match = is.tool('echo')
  proxy.inject({ match, times: 1, action: 'reset-after' })
  await rejectionOf(client.callTool('echo', { text: 'x' }))
  const result = { content: [], isError: false }
  const body = (id: unknown): string => JSON.stringify({ jsonrpc: '2.0', id, result })
  proxy.inject({ match, times: 1, action: { status: 200, body } })
  await client.callTool('echo', { text: 'x' })
  const calls = telemetry.spans().filter(({ name }) => name.startsWith('tools/call'))
  expect(calls.map(({ status, attributes }) => [status.code, attributes['error.type']])).toEqual([
    [SpanStatusCode.ERROR, 'tool_error'],
    [SpanStatusCode.ERROR, '-32602'],
    [SpanStatusCode.ERROR, 'OUTCOME_UNKNOWN'],
    [SpanStatusCode.UNSET, undefined],
  ])
  expect(calls[1]?.attributes).toMatchObject({ 'rpc.response.status_code': '-32602' })
  expect(await telemetry.measured('mcp.client.operation.unknown_outcomes')).toEqual([
    { value: 1, attributes: expect.objectContaining({ 'gen_ai.tool.name': 'echo' }) },
  ])
})

test('reports the names of prompts and resources, without the query of a URI', async () => {
  await using telemetry = recordOpenTelemetry()
  await using setting = await startSetting()
  const { client } = setting
  await rejectionOf(client.getPrompt('none'))
  await client.readResource('test://none?key=secret')
  await client.subscribeResource('test://none?key=secret')
  expect(telemetry.spans().slice(-3)).toMatchObject([
    { name: 'prompts/get none', attributes: { 'gen_ai.prompt.name': 'none' } },
    { name: 'resources/read', attributes: { 'mcp.resource.uri': 'test://none' } },
    { name: 'resources/subscribe', attributes: { 'mcp.resource.uri': 'test://none' } },
  ])
})

test('reports a failed handshake in its span and in the span of the call', async () => {
  await using telemetry = recordOpenTelemetry()
  await using server = await startLegacyServer()
  await using proxy = await startRecordingProxy(server.url)
  proxy.inject({ match: is.initialize, action: { status: 503, body: 'Overloaded' } })
  await using client = new McpClient({ url: proxy.url }, { era: 'legacy', maxRetries: 0 })
  const { code } = (await rejectionOf(client.ping())) as { code: string }
  const failed = { status: { code: SpanStatusCode.ERROR }, attributes: { 'error.type': code } }
  expect(telemetry.spans()).toMatchObject([
    { name: 'initialize', ...failed },
    { name: 'ping', ...failed },
  ])
})

test('counts lost and resumed sessions, and measures durations', async () => {
  await using telemetry = recordOpenTelemetry()
  await using server = await startLegacyServer()
  await using folder = await temporaryFolder()
  const sessionInfoFactory = inFile(join(folder.path, 'session.json'))
  await using client = new McpClient({ url: server.url }, { sessionInfoFactory })
  await client.callTool('echo', { text: 'x' })
  server.forgetSessions()
  await client.callTool('echo', { text: 'x' })
  await client.dispose()
  await using next = new McpClient({ url: server.url }, { sessionInfoFactory })
  await next.callTool('echo', { text: 'x' })

  const counted = async (metric: string): Promise<number[]> =>
    (await telemetry.measured(metric)).map(({ value }) => value)
  expect(await counted('mcp.client.session.reinitializations')).toEqual([1])
  expect(await counted('mcp.client.session.resumptions')).toEqual([1])
  const [duration, ...more] = await telemetry.measured('mcp.client.operation.duration')
  expect(more).toEqual([])
  expect(duration).toMatchObject({
    value: 3,
    attributes: { 'mcp.method.name': 'tools/call', 'gen_ai.tool.name': 'echo' },
  })
  expect(duration?.attributes).not.toHaveProperty('mcp.session.id')
  const handshakes = telemetry.spans().filter(({ name }) => name === 'initialize')
  expect(handshakes).toHaveLength(2)
})

test('reports the discovery of a stateless server, without a session', async () => {
  await using telemetry = recordOpenTelemetry()
  await using server = await startModernServer()
  await using client = new McpClient({ url: server.url })
  await client.listTools()
  const [discovered, listed] = telemetry.spans()
  expect(discovered).toMatchObject({ name: 'server/discover' })
  expect(listed).toMatchObject({
    name: 'tools/list',
    attributes: { 'mcp.method.name': 'tools/list', 'mcp.protocol.version': '2026-07-28' },
  })
  expect(listed?.attributes).not.toHaveProperty('mcp.session.id')
})

test('keeps the traces of concurrent callers apart, although they share one handshake', async () => {
  await using telemetry = recordOpenTelemetry()
  await using server = await startLegacyServer()
  await using client = new McpClient({ url: server.url })
  const callers = Array.from({ length: 8 }, (_, n) =>
    tracer.startActiveSpan(`agent ${n}`, async (span) => {
      await client.callTool('echo', { text: String(n) })
      span.end()
      return span.spanContext().traceId
    }),
  )
  const traceIds = await Promise.all(callers)
  for (const { rpcMethod, params } of server.received) {
    if (rpcMethod !== 'tools/call') continue
    const { arguments: args } = params as { arguments: { text: string } }
    expect(params).toHaveProperty(
      '_meta.traceparent',
      expect.stringContaining(traceIds[Number(args.text)] ?? '-'),
    )
  }
  expect(server.count('tools/call')).toBe(8)
  expect(telemetry.spans().filter(({ name }) => name === 'initialize')).toHaveLength(1)
})

test('puts no session id, token or query string into a span or metric', async () => {
  await using telemetry = recordOpenTelemetry()
  await using server = await startLegacyServer()
  await using client = new McpClient({
    url: `${server.url}?key=query-secret`,
    headers: { authorization: 'Bearer header-secret' },
  })
  const ids = new Set<string>()
  await client.ping()
  for (const id of server.sessions) ids.add(id)
  server.forgetSessions()
  await rejectionOf(client.callTool('none'))
  for (const id of server.sessions) ids.add(id)
  expect(ids.size).toBe(2)
  const spans = telemetry.spans().map(({ name, attributes, status }) => [name, attributes, status])
  const measured = await telemetry.measured('mcp.client.operation.duration')
  const everything = inspect([spans, measured], { depth: 9, maxArrayLength: null })
  for (const secret of [...ids, 'query-secret', 'header-secret']) {
    expect(everything).not.toContain(secret)
  }
})

test('creates nothing with openTelemetry: false, and prefers the traceContext option', async () => {
  await using telemetry = recordOpenTelemetry()
  await using server = await startLegacyServer()
  await using off = new McpClient({ url: server.url }, { openTelemetry: false })
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  const options = { traceContext: () => ({ traceparent }) }
  await using own = new McpClient({ url: server.url }, options)
  await tracer.startActiveSpan('agent', async () => {
    await off.callTool('echo', { text: 'x' })
    expect(telemetry.spans()).toEqual([])
    await own.callTool('echo', { text: 'x' })
  })
  const calls = server.received.filter(is.method('tools/call'))
  expect(calls.map(({ params }) => params?.['_meta'])).toEqual([undefined, { traceparent }])
})

test('propagates a trace that is not sampled, and measures it', async () => {
  await using telemetry = recordOpenTelemetry({ sampler: new AlwaysOffSampler() })
  await using server = await startLegacyServer()
  await using client = new McpClient({ url: server.url })
  await client.callTool('echo', { text: 'x' })
  const [received] = server.received.filter(is.method('tools/call'))
  expect(received?.params).toMatchObject({
    _meta: { traceparent: expect.stringMatching(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/) },
  })
  expect(telemetry.spans()).toEqual([])
  expect(await telemetry.measured('mcp.client.operation.duration')).toHaveLength(1)
})

test('sends no trace context without an SDK, and lets dispose() end a call that was made just before it', async () => {
  await using server = await startLegacyServer()
  await using client = new McpClient({ url: server.url })
  const call = client.callTool('echo', { text: 'x' })
  await client.dispose()
  expect(await rejectionOf(call)).toMatchObject({ code: 'CLOSED', outcome: 'not-executed' })
  await client.callTool('echo', { text: 'x' })
  const [received] = server.received.filter(is.method('tools/call'))
  expect(received?.params).not.toHaveProperty('_meta.traceparent')
})
