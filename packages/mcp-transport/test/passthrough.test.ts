// A client that supports the stateless revision itself: its requests are sent unchanged.
import { getEventListeners } from 'node:events'
import { deferred, startScriptedServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { failureIn, rawClient } from './raw-client.ts'

const meta = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
}
const call = { name: 'a', _meta: meta }

test('passes on a request and its answer unchanged, with headers that repeat the body', async () => {
  const result = { resultType: 'input_required', requestState: 's', structuredContent: [1] }
  await using server = await startScriptedServer({ 'tools/call': { result } })
  await using client = rawClient(server.url)
  await client.transport.start()
  const headers = { 'Mcp-Param-Region': 'west', authorization: 'mine', 'mcp-session-id': 'mine' }
  await expect(client.request('tools/call', call, { headers })).resolves.toEqual({
    jsonrpc: '2.0',
    id: 0,
    result,
  })
  expect(client.transport).toMatchObject({ era: 'modern', protocolVersion: '2026-07-28' })
  const [received] = server.received
  expect(received).toMatchObject({ rpcId: 0, params: call })
  expect(received?.headers).toMatchObject({ 'mcp-param-region': 'west', 'mcp-name': 'a' })
  expect(received?.headers).not.toHaveProperty('authorization')
  expect(server.violations).toEqual([])
})

test('sends no notifications and no responses of the client', async () => {
  await using server = await startScriptedServer({ 'tools/call': { result: {} } })
  await using client = rawClient(server.url)
  await client.request('tools/call', call)
  await client.notify('notifications/roots/list_changed')
  await client.transport.send({ jsonrpc: '2.0', id: 9, result: {} })
  expect(server.received).toHaveLength(1)
})

test('closes the stream without a message when the signal aborts', async () => {
  await using server = await startScriptedServer({ 'tools/call': { events: [], end: 'hang' } })
  await using client = rawClient(server.url)
  const abort = new AbortController()
  let ends = 0
  void client.request('tools/call', call, {
    requestSignal: abort.signal,
    onRequestStreamEnd: () => void ends++,
  })
  await server.waitFor(() => true)
  abort.abort()
  await server.waitFor(({ end }) => end === 'client-gone')
  expect([client.messages, client.errors, ends]).toEqual([[], [], 0])
})

test('sends nothing if the signal has aborted before', async () => {
  await using server = await startScriptedServer()
  await using client = rawClient(server.url)
  void client.request('tools/call', call, { requestSignal: AbortSignal.abort() })
  await client.request('server/discover', { _meta: meta })
  expect(server.count('tools/call')).toBe(0)
  expect(client.messages).toHaveLength(1)
})

test('leaves no listener on a signal that many requests share', async () => {
  await using server = await startScriptedServer({ 'tools/call': { result: {} } })
  await using client = rawClient(server.url)
  const { signal } = new AbortController()
  await Promise.all(
    Array.from({ length: 50 }, () => client.request('tools/call', call, { requestSignal: signal })),
  )
  expect(getEventListeners(signal, 'abort')).toHaveLength(0)
})

test('calls onRequestStreamEnd after the error of a stream without an answer, and reports an error that it throws', async () => {
  await using server = await startScriptedServer({ 'tools/call': { events: [], end: 'eof' } })
  await using client = rawClient(server.url)
  const events: number[] = []
  const failure = await client.failureOf('tools/call', call, {
    onRequestStreamEnd: () => {
      events.push(client.messages.length)
      throw new Error('Not interested')
    },
  })
  expect(failure.code).toBe('OUTCOME_UNKNOWN')
  expect(events).toEqual([1])
  expect(client.errors).toMatchObject([{ message: 'Not interested' }])
})

test('close() answers each request once, also one that waits for its headers', async () => {
  const held = deferred<Record<string, string>>()
  await using server = await startScriptedServer({ 'tools/call': { end: 'hang' } })
  let asked = 0
  const headers = (): Record<string, string> | Promise<Record<string, string>> =>
    asked++ === 0 ? {} : held.promise
  const client = rawClient(server.url, { headers })
  const sent = client.request('tools/call', call)
  const waiting = client.request('tools/call', call)
  await server.waitFor(() => true)
  await client.transport.close()
  held.resolve({})
  expect(failureIn(await sent).code).toBe('CLOSED')
  expect(failureIn(await waiting).code).toBe('CLOSED')
  await server.waitFor(({ end }) => end === 'client-gone')
  expect([client.messages.length, client.errors, client.closed]).toEqual([2, [], 1])
  expect(server.received).toHaveLength(1)
})
