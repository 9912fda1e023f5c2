// No answer of a server may leave a client that fails for ever: after some failures in a row, the next call starts from
// nothing. A server loses its sessions in every form, or changes its era and refuses the other one in every form.
import { oddAnswers } from '@x/internal/testing'
import {
  lossForms,
  seededRandom,
  startRecordingProxy,
  startReplaceableServer,
} from '@x/mcp-testing'
import type { CannedAnswer, Exchange, ReplaceableServer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { McpClient, McpClientError } from '../src/index.ts'
import { DurableFactory } from './session-stores.ts'

const forms: readonly (readonly [string, CannedAnswer])[] = [
  ...Object.entries(lossForms),
  ...Object.entries(oddAnswers),
]

interface Given extends AsyncDisposable {
  readonly server: ReplaceableServer
  readonly client: McpClient
  /** Answers the requests that match with `form` from now on. */
  refuse(form: CannedAnswer, match: (exchange: Exchange) => boolean): void
}

async function startGiven(kind: 'legacy' | 'modern', isDurable = false): Promise<Given> {
  const server = await startReplaceableServer(kind)
  const proxy = await startRecordingProxy(server.url, { keepExchanges: 0 })
  const client = new McpClient(
    { url: proxy.url },
    {
      // A server that asks for a pause is asked again at once.
      retryTiming: { wait: async () => {}, random: () => 0 },
      reconnect: { firstMs: 1 },
      ...(isDurable && { sessionInfoFactory: new DurableFactory() }),
    },
  )
  return {
    server,
    client,
    refuse: (form, match) => void proxy.inject({ match, action: form }),
    async [Symbol.asyncDispose]() {
      await client.dispose()
      await proxy.stop()
      await server[Symbol.asyncDispose]()
    },
  }
}

/** Calls until one succeeds, at most six times. Each call runs at most once, and never if its error says so. */
async function expectHealed({ server, client }: Given): Promise<void> {
  const failures: unknown[] = []
  const ran: { readonly runs: number; readonly allowed: number }[] = []
  for (let n = 1; n <= 6 && ran.length === failures.length; n++) {
    const before = server.ledger.executions('echo')
    const error: unknown = await client.callTool('echo', { text: `${n}` }).then(
      () => undefined,
      (reason: unknown) => reason,
    )
    const isHarmless = McpClientError.is(error) && error.outcome === 'not-executed'
    ran.push({ runs: server.ledger.executions('echo') - before, allowed: isHarmless ? 0 : 1 })
    if (error !== undefined) failures.push(error)
  }
  expect(ran.filter(({ runs, allowed }) => runs > allowed)).toEqual([])
  expect({ isHealed: ran.length > failures.length, failures }).toHaveProperty('isHealed', true)
  expect(ran.at(-1)?.runs).toBe(1)
}

const inSession =
  (id: string | undefined) =>
  ({ sessionId }: Exchange) =>
    sessionId === id
const isModern = ({ protocolVersion }: Exchange): boolean => protocolVersion === '2026-07-28'
const isLegacy = (exchange: Exchange): boolean => !isModern(exchange)

describe('a client goes on', () => {
  test.each(forms)('after a session was forgotten: %s', async (_name, form) => {
    await using given = await startGiven('legacy')
    await given.client.ping()
    const id = await given.client.getSessionId()
    given.refuse(form, inSession(id))
    await expectHealed(given)
    expect(await given.client.getSessionId()).not.toBe(id)
  })

  test.each(forms)('after a server lost the stateless revision: %s', async (_name, form) => {
    await using given = await startGiven('modern')
    await given.client.ping()
    given.server.kind = 'legacy'
    given.refuse(form, isModern)
    await expectHealed(given)
    expect(given.client.status().era).toBe('legacy')
  })

  test.each(forms)('after a server lost the revisions with sessions: %s', async (_name, form) => {
    await using given = await startGiven('legacy')
    await given.client.ping()
    given.server.kind = 'modern'
    given.refuse(form, isLegacy)
    await expectHealed(given)
    expect(given.client.status().era).toBe('modern')
  })

  test.each([1, 2, 3, 4, 5, 6])('after several changes in a row (seed %i)', async (seed) => {
    const random = seededRandom(seed)
    const any = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T
    await using given = await startGiven(any(['legacy', 'modern']), random() < 0.5)
    const { client, server } = given
    for (let change = 0; change < 4; change++) {
      await client.ping()
      const [, form] = any(forms)
      const id = await client.getSessionId()
      if (id !== undefined && random() < 0.5) given.refuse(form, inSession(id))
      else server.legacy.forgetSessions()
      await expectHealed(given)
    }
  })
})

test('keeps a session in which only a tool fails', async () => {
  await using given = await startGiven('legacy')
  const { client, server } = given
  await client.callTool('counter_add')
  const id = await client.getSessionId()
  const form = oddAnswers['200-other-error'] as CannedAnswer
  given.refuse(form, ({ toolName }) => toolName === 'echo')
  for (let n = 0; n < 7; n++) await client.callTool('echo', {}).catch(() => {})
  expect((await client.callTool('counter_add')).structuredContent).toEqual({ count: 2 })
  expect(await client.getSessionId()).toBe(id)
  expect(server.legacy.count('initialize')).toBe(1)
})

test('keeps a session while the server refuses new ones too', async () => {
  await using given = await startGiven('legacy')
  const { client, server } = given
  await client.callTool('counter_add')
  const id = await client.getSessionId()
  let isOver = false
  const form = lossForms['401-challenge']
  given.refuse(form, () => !isOver)
  for (let n = 0; n < 6; n++) await client.callTool('counter_add').catch(() => {})
  isOver = true
  expect((await client.callTool('counter_add')).structuredContent).toEqual({ count: 2 })
  expect(await client.getSessionId()).toBe(id)
  expect(server.legacy.count('initialize')).toBe(1)
})
