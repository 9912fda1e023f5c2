import { describe, expect, test } from 'vitest'
import { startScriptedServer } from '@x/mcp-testing'
import type { ScriptedAnswer } from '@x/mcp-testing'
import { connectionTo } from './connection.ts'

/** A server that refuses other versions than its own, instead of answering with it. */
async function startStubbornServer(
  own: string,
  refusal: ScriptedAnswer,
): Promise<Awaited<ReturnType<typeof startScriptedServer>>> {
  return startScriptedServer(({ message: { method, params } }) => {
    if (method !== 'initialize') return undefined
    if (params?.['protocolVersion'] !== own) return refusal
    const serverInfo = { name: 'stubborn', version: '1' }
    const result = { protocolVersion: own, capabilities: {}, serverInfo }
    return { result, headers: { 'mcp-session-id': 'a-session' } }
  })
}

const versionsOf = (server: Awaited<ReturnType<typeof startScriptedServer>>): unknown[] =>
  server.received
    .filter(({ rpcMethod }) => rpcMethod === 'initialize')
    .map(({ params }) => params?.['protocolVersion'])

const names =
  'Bad Request: Unsupported protocol version (supported versions: 2025-03-26, 2024-11-05)'
const supported = ['2025-06-18', '2025-03-26']

describe('a server that refuses the version of initialize', () => {
  test.each<[own: string, refusal: ScriptedAnswer]>([
    ['2025-03-26', { status: 400, error: { code: -32000, message: names } }],
    ['2025-03-26', { status: 400, body: names }],
    [
      '2025-06-18',
      { error: { code: -32602, message: 'Invalid protocol version', data: { supported } } },
    ],
    [
      '2025-06-18',
      { status: 200, error: { code: -32602, message: 'Unsupported protocol version: 2025-11-25' } },
    ],
    ['2025-06-18', { status: 400, body: '{"ok":false,"error":"invalid_protocol_version"}' }],
    ['2024-11-05', { status: 400, body: 'Unsupported protocolVersion, use 2024-11-05' }],
  ])('is asked once more for one that it takes: %s, %j', async (own, refusal) => {
    await using server = await startStubbornServer(own, refusal)
    await using connection = await connectionTo(server.url, { era: 'legacy', listen: false })
    expect(versionsOf(server)).toEqual(['2025-11-25', own])
    expect(connection.protocolVersion).toBe(own)
  })

  test.each<[refusal: ScriptedAnswer, times: number]>([
    [{ status: 400, body: 'Unsupported protocol version' }, 2],
    [{ status: 400, body: 'no such tenant' }, 1],
    [{ status: 401, body: 'Unsupported protocol version' }, 1],
    [{ status: 503, body: 'Unsupported protocol version' }, 1],
    [{ error: { code: -32022, message: 'Unsupported protocol version' } }, 1],
  ])('is not asked again and again: %j', async (refusal, times) => {
    await using server = await startStubbornServer('1.0', refusal)
    await expect(connectionTo(server.url, { era: 'legacy', listen: false })).rejects.toBeDefined()
    expect(versionsOf(server)).toHaveLength(times)
  })
})
