// Forms in which servers refuse a session, and errors that look similar, in each situation of a client. A lost session
// is replaced, an ambiguous refusal is not sent again, and an error that is not a loss affects only one call. The tests
// of the transport have the verdict for each form that is known.
import { lossForms } from '@x/mcp-testing'
import type { CannedAnswer, LossFormName, LossVerdict } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { McpClient, McpClientError } from '../src/index.ts'
import type { McpClientErrorCode } from '../src/index.ts'
import { DurableFactory } from './session-stores.ts'
import { is, rejectionOf, startSetting, stopClock } from './setting.ts'
import type { Setting } from './setting.ts'

type Situation = 'single' | 'parallel' | 'resumed'
const situations: readonly Situation[] = ['single', 'parallel', 'resumed']

interface Form extends CannedAnswer {
  readonly name: string
  readonly verdict: LossVerdict
}

const names: readonly LossFormName[] = [
  '404-32001',
  '400-no-valid',
  '401-text',
  '404-own-id',
  '404-own-id-only',
  '404-own-id-tool',
  '500-wrapped',
  '200-32001',
  '200-sse-not-json-rpc',
  '202',
  '400-already-exists',
  '401-challenge',
  '409',
  '429',
  '503',
  '400-32600',
]
const forms: readonly Form[] = names.map((name) => ({ name, ...lossForms[name] }))

/** Error for a caller when it is not a loss; `undefined` stands for the `McpError` that the server answered with. */
const codes: Readonly<Partial<Record<LossFormName, McpClientErrorCode>>> = {
  '202': 'UNEXPECTED_RESPONSE',
  '400-already-exists': 'REJECTED',
  '401-challenge': 'UNAUTHORIZED',
  '409': 'REJECTED',
  '429': 'REJECTED',
  '503': 'REJECTED',
}

/** Number of concurrent calls. */
function atOnce(situation: Situation): number {
  return situation === 'parallel' ? 5 : 1
}

const cases = forms.flatMap((form) =>
  situations.map((situation) => ({
    form,
    situation,
    title: `${form.name}, ${situation}`,
  })),
)

const casesOf = (verdict: LossVerdict): typeof cases =>
  cases.filter(({ form }) => form.verdict === verdict)

/** Returns a client with a working session, in the situation in which the server will refuse it. */
async function startClient({ proxy }: Setting, situation: Situation): Promise<McpClient> {
  const sessionInfoFactory = new DurableFactory()
  const client = (): McpClient => new McpClient({ url: proxy.url }, { sessionInfoFactory })
  const first = client()
  await first.ping()
  if (situation !== 'resumed') return first
  await first.dispose()
  return client()
}

describe('a lost session: one handshake, and every call gets one result', () => {
  test.each(casesOf('lost'))('$title', async ({ form, situation }) => {
    await using setting = await startSetting({ server: { lossForm: form } })
    const { server, proxy } = setting
    await using client = await startClient(setting, situation)
    const [dead] = server.sessions
    server.forgetSessions()
    const calls = Array.from({ length: atOnce(situation) }, () => client.callTool('counter_add'))
    const counts = (await Promise.all(calls)).map((result) => result.structuredContent?.['count'])
    expect(new Set(counts)).toEqual(new Set(calls.map((_, n) => n + 1)))
    expect(server.executions('counter_add')).toBe(calls.length)
    expect(server.count('initialize')).toBe(2)
    expect(await client.getSessionId()).toBe(server.sessions[0])
    // No fault affects the handshake or any later request.
    const handshake = proxy.exchanges.findLastIndex(is.initialize)
    const later = proxy.exchanges.slice(handshake).map(({ sessionId }) => sessionId)
    expect(later).not.toContain(dead)
  })
})

describe('an ambiguous refusal', () => {
  test.each(casesOf('ambiguous'))(
    '$title: sends no tool call again, and replaces the session',
    async ({ form, situation }) => {
      await using setting = await startSetting({ server: { lossForm: form } })
      const { server, proxy } = setting
      await using client = await startClient(setting, situation)
      server.forgetSessions()
      const calls = Array.from({ length: atOnce(situation) }, () => client.callTool('counter_add'))
      for (const error of await Promise.all(calls.map(rejectionOf))) {
        expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN', outcome: 'unknown' })
        expect(error).toHaveProperty('cause.code', 'SESSION_LOST')
      }
      expect(proxy.count({ toolName: 'counter_add' })).toBe(calls.length)
      expect((await client.callTool('counter_add')).structuredContent).toEqual({ count: 1 })
      expect(server.count('initialize')).toBe(2)
    },
  )

  test.each(casesOf('ambiguous'))(
    '$title: sends safe requests again',
    async ({ form, situation }) => {
      await using setting = await startSetting({ server: { lossForm: form } })
      const { server } = setting
      await using client = await startClient(setting, situation)
      server.forgetSessions()
      const reads = Array.from({ length: atOnce(situation) }, () =>
        client.readResource('counter://value'),
      )
      expect(await Promise.all(reads)).toHaveLength(reads.length)
      expect(server.count('initialize')).toBe(2)
    },
  )
})

describe('an error that is not a loss fails the calls that received it, and the session stays', () => {
  test.each(casesOf('not-lost'))('$title', async ({ form, situation }) => {
    await using setting = await startSetting()
    const { server, proxy } = setting
    await using client = await startClient(setting, situation)
    const [sessionId] = server.sessions
    const times = atOnce(situation)
    proxy.inject({ match: is.tool('echo'), times, action: form })
    stopClock()
    // Shorter than the delay that an overloaded server asks for, so the delay is reported to the caller.
    const calls = Array.from({ length: times }, () =>
      client.callTool('echo', { text: 'x' }, { timeoutMs: 900 }),
    )
    for (const error of await Promise.all(calls.map(rejectionOf))) {
      expect(McpClientError.is(error) ? error.code : undefined).toBe(
        codes[form.name as LossFormName],
      )
      expect(error).toBeInstanceOf(Error)
    }
    expect(proxy.count({ toolName: 'echo' })).toBe(times)
    await client.ping()
    expect(await client.getSessionId()).toBe(sessionId)
    expect(server.count('initialize')).toBe(1)
  })
})

describe('responses to messages without a request id', () => {
  test.each([404, 405, 406, 409, 501])(
    'keeps the session when a listening stream is refused with %i',
    async (status) => {
      await using setting = await startSetting()
      const { client, server, proxy } = setting
      const isListening = {
        match: ({ httpMethod }: { httpMethod: string }) => httpMethod === 'GET',
      }
      proxy.inject({ ...isListening, action: { ...lossForms['404-32001'], status } })
      await client.ping()
      await proxy.waitFor((one) => one.httpMethod === 'GET' && one.end !== undefined)
      await client.callTool('counter_add')
      await client.callTool('counter_add')
      expect(server.count('initialize')).toBe(1)
    },
  )

  test.each<LossFormName>(['404-32001', '400-no-valid'])(
    'fails no call when a notification is refused with %s, and the next call has a session',
    async (form) => {
      await using setting = await startSetting()
      const { client, server, proxy } = setting
      await client.ping()
      const caller = new AbortController()
      const running = client.callTool('slow', {}, { signal: caller.signal })
      await server.waitFor(is.tool('slow'))
      server.forgetSessions()
      server.lossForm = form
      caller.abort(new Error('enough'))
      expect(await rejectionOf(running)).toBe(caller.signal.reason)
      await proxy.waitFor(
        (one) => one.rpcMethod === 'notifications/cancelled' && one.status !== undefined,
      )
      expect((await client.callTool('counter_add')).structuredContent).toEqual({ count: 1 })
      expect(server.count('initialize')).toBe(2)
    },
  )

  test('decides with the next request after a lost session accepted a notification', async () => {
    await using setting = await startSetting()
    const { client, server, proxy } = setting
    await client.ping()
    const caller = new AbortController()
    const running = client.callTool('slow', {}, { signal: caller.signal })
    await server.waitFor(is.tool('slow'))
    server.forgetSessions()
    const isCancel = is.method('notifications/cancelled')
    proxy.inject({ match: isCancel, action: lossForms['202'] })
    caller.abort()
    await rejectionOf(running)
    await proxy.waitFor((one) => isCancel(one) && one.end !== undefined)
    expect(server.count('initialize')).toBe(1)
    expect((await client.callTool('counter_add')).structuredContent).toEqual({ count: 1 })
    expect(server.count('initialize')).toBe(2)
  })

  test.each<LossFormName>(['404-32001', '404-empty', '400-no-valid', '400-text'])(
    'removes the record from the store when DELETE is refused with %s, because the session is lost',
    async (form) => {
      await using setting = await startSetting()
      const { proxy } = setting
      const sessionInfoFactory = new DurableFactory()
      const options = { sessionInfoFactory, terminateOnClose: true }
      const client = new McpClient({ url: proxy.url }, options)
      const warnings: unknown[] = []
      client.on('log', ({ level, message }) => level === 'warning' && warnings.push(message))
      await client.ping()
      proxy.inject({ match: is.delete, action: lossForms[form] })
      await client.dispose()
      expect(proxy.count({ httpMethod: 'DELETE' })).toBe(1)
      expect(await sessionInfoFactory.createSession().getSessionId()).toBeUndefined()
      expect(warnings).toEqual([])
    },
  )
})
