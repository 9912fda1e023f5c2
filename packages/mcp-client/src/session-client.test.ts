import { getEventListeners } from 'node:events'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { EmptyResultSchema, ErrorCode, ResultSchema } from '@modelcontextprotocol/sdk/types.js'
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import { describe, expect, test } from 'vitest'
import { UnreadableResult } from './errors.ts'
import { SessionClient } from './session-client.ts'

const INFO = { name: 'test', version: '1.0.0' }
const PING = { method: 'ping' } as const

/** A connected client, and the messages that it has sent since. */
async function connected(Kind: typeof Client | typeof SessionClient, parts = {}) {
  const [ours, server] = InMemoryTransport.createLinkedPair()
  const sent: JSONRPCMessage[] = []
  const client: Client | SessionClient = new Kind(INFO, {})
  server.onmessage = (message) => {
    sent.push(message)
    if (!('method' in message) || !('id' in message) || message.method !== 'initialize') return
    // An error without an id belongs to no request, and so not to the request with the id 0.
    // @ts-expect-error: JSON-RPC allows `null`, the types of the SDK do not
    void server.send({ jsonrpc: '2.0', id: null, error: { code: -32_700, message: 'unreadable' } })
    const result = { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: INFO }
    void server.send({ jsonrpc: '2.0', id: message.id, result })
  }
  await server.start()
  await client.connect(Object.assign(ours, parts))
  sent.length = 0
  return { client, server, sent }
}

// The client of the SDK is the reference: each test runs with both.
describe.each([
  ['the SDK', Client],
  ['a session', SessionClient],
] as const)('the client of %s', (_, Kind) => {
  test('gives each request its own result, also when ids come back as strings', async () => {
    const { client, server } = await connected(Kind)
    const results = Promise.all([1, 2, 3].map(() => client.request(PING, ResultSchema)))
    for (const id of ['3', 2, '1']) {
      await server.send({ jsonrpc: '2.0', id, result: { answerTo: Number(id) } })
    }
    expect((await results).map((result) => result['answerTo'])).toEqual([1, 2, 3])
  })

  test('rejects with the code, message and data of an error', async () => {
    const { client, server } = await connected(Kind)
    const result = client.request(PING, EmptyResultSchema)
    const error = { code: -32_050, message: 'no', data: { why: 'because' } }
    await server.send({ jsonrpc: '2.0', id: 1, error })
    await expect(result).rejects.toMatchObject({
      name: 'McpError',
      code: -32_050,
      data: error.data,
    })
  })

  test('rejects a result that does not fit its schema', async () => {
    const { client, server } = await connected(Kind)
    const result = client.request(PING, EmptyResultSchema)
    await server.send({ jsonrpc: '2.0', id: 1, result: { unexpected: true } })
    const error: unknown = await result.catch((reason: unknown) => reason)
    const cause = error instanceof UnreadableResult ? error.cause : error
    expect(cause).toHaveProperty('issues')
  })

  test('cancels an aborted request, and reports its late response', async () => {
    const { client, server, sent } = await connected(Kind)
    const errors: Error[] = []
    client.onerror = (error) => errors.push(error)
    const controller = new AbortController()
    const { signal } = controller
    const result = client.request(PING, EmptyResultSchema, { signal })
    controller.abort('enough')
    await expect(result).rejects.toMatchObject({ code: ErrorCode.RequestTimeout })
    expect(sent.at(-1)).toMatchObject({
      method: 'notifications/cancelled',
      params: { requestId: 1, reason: 'enough' },
    })
    await server.send({ jsonrpc: '2.0', id: 1, result: {} })
    expect(errors).toHaveLength(1)
  })

  test('sends nothing for a signal that has aborted before', async () => {
    const { client, sent } = await connected(Kind)
    const signal = AbortSignal.abort(new Error('before'))
    await expect(client.request(PING, EmptyResultSchema, { signal })).rejects.toThrow('before')
    expect(sent).toEqual([])
  })

  test('cancels a request after its timeout', async () => {
    const { client, sent } = await connected(Kind)
    const result = client.request(PING, EmptyResultSchema, { timeout: 1 })
    await expect(result).rejects.toMatchObject({
      code: ErrorCode.RequestTimeout,
      data: { timeout: 1 },
    })
    expect(sent.at(-1)).toMatchObject({ method: 'notifications/cancelled' })
  })

  test('asks for progress with the id of the request, and reports progress of unknown requests', async () => {
    const { client, server, sent } = await connected(Kind)
    const errors: Error[] = []
    client.onerror = (error) => errors.push(error)
    const progress: unknown[] = []
    const result = client.request(
      { method: 'tools/call', params: { name: 'pay', _meta: { note: 1 } } },
      ResultSchema,
      { onprogress: (step) => void progress.push(step) },
    )
    expect(sent.at(-1)).toMatchObject({ id: 1, params: { _meta: { note: 1, progressToken: 1 } } })
    const step = (progressToken: number): JSONRPCMessage => ({
      jsonrpc: '2.0',
      method: 'notifications/progress',
      params: { progressToken, progress: 1, total: 2, message: 'half' },
    })
    await server.send(step(1))
    await server.send(step(9))
    await expect.poll(() => errors).toHaveLength(1)
    expect(progress).toEqual([{ progress: 1, total: 2, message: 'half' }])
    await server.send({ jsonrpc: '2.0', id: 1, result: {} })
    await result
  })

  test('rejects open and later requests when the connection closes', async () => {
    const { client, server } = await connected(Kind)
    const result = client.request(PING, EmptyResultSchema)
    const [closed] = await Promise.allSettled([result, server.close()])
    expect(closed).toMatchObject({ reason: { code: ErrorCode.ConnectionClosed } })
    await expect(client.request(PING, EmptyResultSchema)).rejects.toThrow('Not connected')
  })

  test('rejects a request that the transport rejects', async () => {
    const { client } = await connected(Kind)
    if (client.transport) client.transport.send = () => Promise.reject(new Error('not taken'))
    await expect(client.request(PING, EmptyResultSchema)).rejects.toThrow('not taken')
  })
})

test('leaves no listener on a signal that 1,000 requests share', async () => {
  const { client, server, sent } = await connected(SessionClient)
  const controller = new AbortController()
  const { signal } = controller
  const options = { signal }
  const error = { code: -32_050, message: 'no' }
  for (let id = 1; id <= 1000; id++) {
    const result = client.request(PING, EmptyResultSchema, options)
    await server.send({ jsonrpc: '2.0', id, ...(id % 2 === 0 ? { error } : { result: {} }) })
    await result.catch(() => {})
  }
  expect(getEventListeners(signal, 'abort')).toEqual([])
  const open = [
    client.request(PING, EmptyResultSchema, options),
    client.request(PING, EmptyResultSchema, options),
  ]
  expect(getEventListeners(signal, 'abort')).toHaveLength(2)
  controller.abort('enough')
  for (const result of open) {
    await expect(result).rejects.toMatchObject({ code: ErrorCode.RequestTimeout })
  }
  expect(sent.slice(-2)).toMatchObject([
    { params: { requestId: 1001, reason: 'enough' } },
    { params: { requestId: 1002, reason: 'enough' } },
  ])
  expect(getEventListeners(signal, 'abort')).toEqual([])
})

test('names the error code of an unsent request that timed out once', async () => {
  const { client } = await connected(SessionClient, { withdraw: () => true })
  await expect(client.request(PING, ResultSchema, { timeout: 5 })).rejects.toMatchObject({
    message: 'MCP error -32001: Request timed out',
    data: { outcome: 'not-executed' },
  })
})
