// Requests of the server on the streams of two sessions: each session counts its ids from the start.
import { expect, test } from 'vitest'
import { isRequest } from '../src/json-rpc.ts'
import type { JsonRpcMessage } from '../src/index.ts'
import { connectRaw } from './raw-client.ts'
import { errorOf, json, openSse, resultOf, scriptedServer } from './scripted-server.ts'
import type { ScriptedServer, Seen } from './scripted-server.ts'

const asks = { jsonrpc: '2.0', id: 1, method: 'roots/list' } as const
const isCancellation = (message: JsonRpcMessage): boolean =>
  'method' in message && message.method === 'notifications/cancelled'

const answersOf = ({ seen }: ScriptedServer): readonly Seen[] =>
  seen.filter(({ what }) => what === 'POST reply')

test('two requests with one id, in two sessions, get their own answers', async () => {
  const streams = [openSse(), openSse()]
  for (const stream of streams) stream.push(asks)
  const server = scriptedServer((seen) => {
    if (seen.what === 'POST tools/call') return streams[server.count(seen.what) - 1]?.response
    if (seen.what !== 'POST tools/list') return undefined
    return seen.sessionId === 'session-1'
      ? json(errorOf(seen, -32001, 'Session not found'), {}, 404)
      : json(resultOf(seen, { tools: [] }))
  })
  await using client = await connectRaw(server, { listen: false, onSessionLost: 'reinitialize' })
  const first = client.request('tools/call')
  await client.until(() => client.messages.some(isRequest))
  await client.request('tools/list') // replaces the session
  void client.request('tools/call')
  await client.until(() => client.messages.filter(isRequest).length === 2)
  const [one, other] = client.messages.filter(isRequest)
  expect(one?.id).toBe(1)
  expect(other?.id).not.toBe(1)
  await client.transport.send({ jsonrpc: '2.0', id: other?.id ?? '', result: { roots: [] } })
  expect(answersOf(server)).toMatchObject([{ sessionId: 'session-2', id: 1 }])
  await client.transport.send({ jsonrpc: '2.0', id: 1, result: { roots: [] } })
  await expect(first).resolves.toMatchObject({ error: { data: { code: 'OUTCOME_UNKNOWN' } } })
})

test('a request that the server cancels is cancelled for the client, once', async () => {
  const stream = openSse()
  stream.push(asks)
  const server = scriptedServer((seen) =>
    seen.what === 'POST tools/call' ? stream.response : undefined,
  )
  await using client = await connectRaw(server, { listen: false })
  void client.request('tools/call')
  await client.until(() => client.messages.some(isRequest))
  const method = 'notifications/cancelled'
  const cancel = (requestId: unknown): void =>
    stream.push({ jsonrpc: '2.0', method, params: { requestId, reason: 'Not needed' } })
  cancel('unknown')
  cancel(1)
  cancel(1)
  await client.until(() => client.messages.some(isCancellation))
  expect(client.messages.filter(isCancellation)).toMatchObject([
    { params: { requestId: 1, reason: 'Not needed' } },
  ])
  await client.transport.send({ jsonrpc: '2.0', id: 1, result: { roots: [] } })
  expect(answersOf(server)).toEqual([])
})
