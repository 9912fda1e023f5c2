import { expect, test } from 'vitest'
import { RawClient } from '../test/raw-client.ts'
import { deferred } from '@x/internal/testing'
import type { LegacyServerOptions } from './legacy-server.ts'
import { startLegacyServer } from './legacy-server.ts'
import { startModernServer } from './modern-server.ts'
import { startScriptedServer } from './scripted-server.ts'
import type { ServerFault } from './server-faults.ts'

const era = 'io.modelcontextprotocol/'
const meta = { [`${era}protocolVersion`]: '2026-07-28', [`${era}clientCapabilities`]: {} }

/** Calls `echo` on a server of each kind, once for every text. Returns the bodies, or `broken`. */
const kinds = {
  json: legacy({ answerAs: 'json' }),
  sse: legacy({ answerAs: 'sse', eventIds: false }),
  async modern(faults: readonly ServerFault[], texts: readonly string[]) {
    await using server = await startModernServer({ faults })
    return { answers: await modernCalls(server.url, texts), ran: server.executions('echo') }
  },
  async scripted(faults: readonly ServerFault[], texts: readonly string[]) {
    const content = (text: unknown): unknown => [{ type: 'text', text }]
    await using server = await startScriptedServer(
      ({ message: { params = {} } }) => ({
        result: { content: content((params['arguments'] as { text: string }).text) },
      }),
      { faults },
    )
    return { answers: await modernCalls(server.url, texts), ran: server.executions('echo') }
  },
}

interface Outcome {
  readonly answers: readonly string[]
  readonly ran: number
}

function legacy(options: LegacyServerOptions) {
  return async (faults: readonly ServerFault[], texts: readonly string[]): Promise<Outcome> => {
    await using server = await startLegacyServer({ ...options, faults })
    await using client = new RawClient(server.url)
    await (await client.initialize()).text()
    const calls = texts.map(async (text, index) => {
      await using caller = new RawClient(server.url) // each sends one request at a time
      caller.sessionId = client.sessionId
      return await (await caller.call('echo', { text }, index + 1)).text()
    })
    return { answers: await settled(calls), ran: server.executions('echo') }
  }
}

function modernCalls(url: string, texts: readonly string[]): Promise<string[]> {
  const calls = texts.map(async (text, index) => {
    const params = { name: 'echo', arguments: { text }, _meta: meta }
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'tools/call',
        'mcp-name': 'echo',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: index + 1, method: 'tools/call', params }),
    })
    return response.text()
  })
  return settled(calls)
}

async function settled(calls: readonly Promise<string>[]): Promise<string[]> {
  const results = await Promise.allSettled(calls)
  return results.map((one) => (one.status === 'fulfilled' ? one.value : 'broken'))
}

/** Returns the JSON-RPC messages in a body. */
function messagesIn(body: string): { id: unknown; result?: unknown }[] {
  const lines = body.split('\n').map((line) => line.replace(/^data: /, ''))
  return lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line))
}

for (const [kind, callEcho] of Object.entries(kinds)) {
  test(`${kind}: answers twice`, async () => {
    const { answers, ran } = await callEcho([{ answer: 'twice' }], ['a'])
    const messages = messagesIn(answers[0] ?? '')
    expect(messages).toHaveLength(2)
    expect(messages[0]).toEqual(messages[1])
    expect(messages[0]).toMatchObject({ id: 1, result: { content: [{ text: 'a' }] } })
    expect(ran).toBe(1)
  })

  test(`${kind}: answers with an id that the client has not used`, async () => {
    const { answers, ran } = await callEcho([{ answer: 'other-id' }], ['a'])
    expect(messagesIn(answers[0] ?? '')).toMatchObject([{ id: '1-unused', result: {} }])
    expect(ran).toBe(1)
  })

  test(`${kind}: answers two calls with the id of the other one`, async () => {
    const fault: ServerFault = { answer: 'id-of-another-call', times: 2 }
    const { answers, ran } = await callEcho([fault], ['a', 'b'])
    expect(answers.flatMap(messagesIn)).toMatchObject([
      { id: 2, result: { content: [{ text: 'a' }] } },
      { id: 1, result: { content: [{ text: 'b' }] } },
    ])
    expect(ran).toBe(2)
  })

  test.each(['cut', 'reset'] as const)(
    `${kind}: executes the call, then breaks the connection: %s`,
    async (answer) => {
      const { answers, ran } = await callEcho([{ answer, tool: 'echo' }], ['a'])
      expect(answers).toEqual(['broken'])
      expect(ran).toBe(1)
    },
  )

  test(`${kind}: answers otherwise, after or instead of the execution`, async () => {
    const answer = { status: 503, body: 'Overloaded' }
    await expect(callEcho([{ answer }], ['a'])).resolves.toEqual({
      answers: ['Overloaded'],
      ran: 1,
    })
    await expect(callEcho([{ instead: answer }], ['a'])).resolves.toEqual({
      answers: ['Overloaded'],
      ran: 0,
    })
  })

  test(`${kind}: resets the connection instead of the execution`, async () => {
    await expect(callEcho([{ instead: 'reset' }], ['a'])).resolves.toEqual({
      answers: ['broken'],
      ran: 0,
    })
  })
}

test('delays an answer, and does not affect other tools', async () => {
  await using server = await startLegacyServer()
  await using client = new RawClient(server.url)
  await (await client.initialize()).text()
  const open = deferred()
  server.inject({ tool: 'echo', answer: 'unchanged', until: open.promise })
  const late = client.call('echo', { text: 'a' })
  await server.ledger.waitFor({ tool: 'echo', state: 'answered' })
  await using other = new RawClient(server.url)
  other.sessionId = client.sessionId
  await expect((await other.call('whoami')).text()).resolves.toContain('result')
  expect(server.received.find(({ toolName }) => toolName === 'echo')?.end).toBeUndefined()
  open.resolve()
  await expect((await late).text()).resolves.toContain('"a"')
})

test('ignores a fault that was removed', async () => {
  await using server = await startLegacyServer()
  await using client = new RawClient(server.url)
  const remove = server.inject({ method: 'initialize', instead: { status: 500 }, times: 2 })
  expect((await client.initialize()).status).toBe(500)
  remove()
  remove()
  expect((await client.initialize()).status).toBe(200)
})
