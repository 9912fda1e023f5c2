// No answer of a server may leave a transport that fails for ever, also without McpClient: a server loses its sessions
// in every form, or changes its era and refuses the other one in every form.
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { oddAnswers } from '@x/internal/testing'
import { lossForms, startRecordingProxy, startReplaceableServer } from '@x/mcp-testing'
import type { CannedAnswer, Exchange, ReplaceableServer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { StreamableHttpTransport, TransportError } from '../src/index.ts'

const forms: readonly (readonly [string, CannedAnswer])[] = [
  ...Object.entries(lossForms),
  ...Object.entries(oddAnswers),
]

interface Given extends AsyncDisposable {
  readonly server: ReplaceableServer
  readonly client: Client
  readonly transport: StreamableHttpTransport
  refuse(form: CannedAnswer, match: (exchange: Exchange) => boolean): void
}

async function startGiven(kind: 'legacy' | 'modern'): Promise<Given> {
  const server = await startReplaceableServer(kind)
  const proxy = await startRecordingProxy(server.url, { keepExchanges: 0 })
  const client = new Client({ name: 'tester', version: '1' })
  const transport = new StreamableHttpTransport(proxy.url, {
    onSessionLost: 'reinitialize',
    reconnect: { firstMs: 1 },
  })
  await client.connect(transport)
  return {
    server,
    client,
    transport,
    refuse: (form, match) => void proxy.inject({ match, action: form }),
    async [Symbol.asyncDispose]() {
      await client.close()
      await proxy.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

async function expectHealed({ server, client }: Given): Promise<void> {
  const failures: unknown[] = []
  const ran: { readonly runs: number; readonly allowed: number }[] = []
  for (let n = 1; n <= 6 && ran.length === failures.length; n++) {
    const before = server.ledger.executions('echo')
    const error: unknown = await client
      .callTool({ name: 'echo', arguments: { text: `${n}` } })
      .then(
        () => undefined,
        (reason: unknown) => reason,
      )
    const data = error instanceof McpError ? error.data : undefined
    const isHarmless = TransportError.is(data) && data.outcome === 'not-executed'
    ran.push({ runs: server.ledger.executions('echo') - before, allowed: isHarmless ? 0 : 1 })
    if (error !== undefined) failures.push(error)
  }
  expect(ran.filter(({ runs, allowed }) => runs > allowed)).toEqual([])
  expect({ isHealed: ran.length > failures.length, failures }).toHaveProperty('isHealed', true)
  expect(ran.at(-1)?.runs).toBe(1)
}

const isModern = ({ protocolVersion }: Exchange): boolean => protocolVersion === '2026-07-28'
const isLegacy = (exchange: Exchange): boolean => !isModern(exchange)

describe('a transport that replaces lost sessions goes on', () => {
  test.each(forms)('after a session was forgotten: %s', async (_name, form) => {
    await using given = await startGiven('legacy')
    const id = given.transport.sessionId
    given.refuse(form, ({ sessionId }) => sessionId === id)
    await expectHealed(given)
    expect(given.transport.sessionId).not.toBe(id)
  })

  test.each(forms)('after a server lost the stateless revision: %s', async (_name, form) => {
    await using given = await startGiven('modern')
    given.server.kind = 'legacy'
    given.refuse(form, isModern)
    await expectHealed(given)
    expect(given.transport.era).toBe('legacy')
  })

  test.each(forms)('after a server lost the revisions with sessions: %s', async (_name, form) => {
    await using given = await startGiven('legacy')
    given.server.kind = 'modern'
    given.refuse(form, isLegacy)
    await expectHealed(given)
    expect(given.transport.era).toBe('modern')
  })
})

test('keeps a session in which only a tool fails', async () => {
  await using given = await startGiven('legacy')
  const { client, server, transport } = given
  await client.callTool({ name: 'counter_add' })
  const id = transport.sessionId
  given.refuse(oddAnswers['200-other-error'] as CannedAnswer, ({ toolName }) => toolName === 'echo')
  for (let n = 0; n < 7; n++) await client.callTool({ name: 'echo' }).catch(() => {})
  expect(await client.callTool({ name: 'counter_add' })).toMatchObject({
    structuredContent: { count: 2 },
  })
  expect(transport.sessionId).toBe(id)
  expect(server.legacy.count('initialize')).toBe(1)
})

test('keeps a session while the server refuses new ones too', async () => {
  await using given = await startGiven('legacy')
  const { client, server, transport } = given
  await client.callTool({ name: 'counter_add' })
  const id = transport.sessionId
  let isOver = false
  given.refuse(lossForms['401-challenge'], () => !isOver)
  for (let n = 0; n < 6; n++) await client.callTool({ name: 'counter_add' }).catch(() => {})
  isOver = true
  expect(await client.callTool({ name: 'counter_add' })).toMatchObject({
    structuredContent: { count: 2 },
  })
  expect(transport.sessionId).toBe(id)
  expect(server.legacy.count('initialize')).toBe(1)
})

test('keeps the stateless revision, its subscriptions too, while only a tool fails', async () => {
  await using given = await startGiven('modern')
  const { client, server } = given
  await client.subscribeResource({ uri: 'counter://value' })
  const listened = server.modern.count('subscriptions/listen')
  given.refuse(oddAnswers['500'] as CannedAnswer, ({ toolName }) => toolName === 'echo')
  for (let n = 0; n < 7; n++) await client.callTool({ name: 'echo' }).catch(() => {})
  await client.ping()
  expect(given.transport.era).toBe('modern')
  expect(server.modern.count('subscriptions/listen')).toBe(listened)
})

test('a call that is cancelled during the test of the server is not answered', async () => {
  await using given = await startGiven('legacy')
  const { client, server, transport } = given
  await client.ping()
  given.refuse(oddAnswers['200-other-error'] as CannedAnswer, ({ toolName }) => toolName === 'echo')
  for (let n = 0; n < 2; n++) await client.callTool({ name: 'echo' }).catch(() => {})
  const caller = new AbortController()
  given.refuse({ status: 500 }, ({ rpcMethod }) => {
    if (rpcMethod === 'ping') caller.abort(new Error('enough'))
    return false
  })
  const { signal } = caller
  const call = client.callTool({ name: 'echo' }, undefined, { signal })
  await expect(call).rejects.toThrow('enough')
  await client.callTool({ name: 'counter_add' })
  expect(transport.sessionId).toBe(server.legacy.sessions[0])
})
