// A server with sessions is replaced by a stateless one behind the same URL, and the other way round.
import { lossForms, startRecordingProxy, startReplaceableServer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { McpClient } from '../src/index.ts'
import { DurableFactory } from './session-stores.ts'
import { rejectionOf, recordEvents, textOf } from './setting.ts'

const echo = async (client: McpClient, text: string): Promise<string> =>
  textOf(await client.callTool('echo', { text }))

describe.each([
  ['legacy', 'modern'],
  ['modern', 'legacy'],
] as const)('a server that changes from %s to %s', (before, after) => {
  test('keeps serving a running client, and runs each call once', async () => {
    await using server = await startReplaceableServer(before)
    await using client = new McpClient({ url: server.url })
    const observed = recordEvents(client)
    expect(await echo(client, 'a')).toBe('a')
    server.kind = after
    expect(await Promise.all(['b', 'c', 'd'].map((text) => echo(client, text)))).toEqual([
      'b',
      'c',
      'd',
    ])
    expect(client.status().sessions[0]).toMatchObject({ era: after, epoch: 2 })
    server.kind = before
    server.legacy.forgetSessions()
    expect(await echo(client, 'e')).toBe('e')
    expect(client.status().sessions[0]).toMatchObject({ era: before, epoch: 3 })
    expect(server.ledger.executions('echo')).toBe(5)
    const replaced = observed.filter(({ event }) => event === 'sessionReplaced')
    expect(replaced.map(({ payload }) => payload)).toMatchObject([
      { oldEpoch: 1, newEpoch: 2 },
      { oldEpoch: 2, newEpoch: 3 },
    ])
  })

  test('serves the next process, which finds the old record', async () => {
    await using server = await startReplaceableServer(before)
    const sessionInfoFactory = new DurableFactory()
    {
      await using first = new McpClient({ url: server.url }, { sessionInfoFactory })
      await echo(first, 'a')
    }
    server.kind = after
    for (const text of ['b', 'c']) {
      await using next = new McpClient({ url: server.url }, { sessionInfoFactory })
      expect(await echo(next, text)).toBe(text)
      expect(next.status().sessions[0]).toMatchObject({ era: after })
    }
    expect(server.ledger.executions('echo')).toBe(3)
    // A stateless server is asked for a session twice before the transport asks for its revisions.
    const asked = [server.legacy.count('initialize'), server.modern.count('initialize')]
    expect(asked).toEqual([1, after === 'modern' ? 2 : 0])
  })

  test('fails one call without a retry, and serves the next', async () => {
    await using server = await startReplaceableServer(before)
    await using client = new McpClient({ url: server.url }, { replay: 'never' })
    await echo(client, 'a')
    server.kind = after
    expect(await rejectionOf(echo(client, 'b'))).toMatchObject({
      code: 'SESSION_LOST',
      outcome: 'not-executed',
    })
    expect(await echo(client, 'c')).toBe('c')
    expect(server.ledger.executions('echo')).toBe(2)
  })
})

test('a session that replaced a stateless server proves nothing with its first refusal', async () => {
  await using server = await startReplaceableServer('modern')
  await using proxy = await startRecordingProxy(server.url)
  await using client = new McpClient({ url: proxy.url })
  await echo(client, 'a')
  server.kind = 'legacy'
  const answer = lossForms['404-empty']
  proxy.inject({
    match: ({ toolName, sessionId }) => toolName === 'echo' && sessionId !== undefined,
    action: { type: 'answer', answer, when: 'after-execution' },
  })
  const error = await rejectionOf(echo(client, 'b'))
  expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN', outcome: 'unknown' })
  expect(server.ledger.executions('echo')).toBe(2)
})
