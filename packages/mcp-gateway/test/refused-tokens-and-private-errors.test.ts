import { expect, test } from 'vitest'

import { bearerAuth } from '../src/http/auth/bearer.ts'
import { createGateway } from '../src/gateway.ts'
import type { GatewayOptions } from '../src/options.ts'
import { GatewayError } from '../src/errors.ts'
import type { AgentUpdate } from '../src/agents/agent.ts'
import { MemoryGatewayStore } from '../src/store/memory-store.ts'
import { AgentsAtHand, echo } from './agents-at-hand.ts'
import { initialize, inSession, modern, openSession, post } from './rpc-requests.ts'
import { EventReader, WireSession } from './wire-session.ts'

const token = 'the-token-of-ada-0123456789'
const authorization = `Bearer ${token}`

function gatewayOf(options: Partial<GatewayOptions> = {}) {
  const auth = bearerAuth({ ada: { token, scopes: ['*'] } })
  return createGateway({ sources: [new AgentsAtHand({ echo })], auth, ...options })
}

test('refuses new tokens from a network that sends wrong tokens, and serves those it has accepted', async () => {
  let address = '192.0.2.1'
  await using gateway = gatewayOf({
    auth: bearerAuth({
      ada: { token, scopes: ['*'] },
      bob: { token: 'the-token-of-bob-0123456789', scopes: ['*'] },
    }),
    clientAddress: () => address,
    requestsPerMinute: 3,
  })
  const statusOf = async (credential?: string): Promise<number> => {
    const headers = credential === undefined ? {} : { authorization: credential }
    const { status, body } = await gateway.fetch(initialize(headers))
    await body?.cancel()
    return status
  }
  expect(await statusOf(authorization)).toBe(200)
  const statuses: number[] = []
  for (let n = 0; n < 4; n++) statuses.push(await statusOf(`Bearer wrong-${n}`))
  expect(statuses).toEqual([401, 401, 401, 429])
  // A right token that comes for the first time is not told from a wrong one now.
  expect(await statusOf('Bearer the-token-of-bob-0123456789')).toBe(429)
  expect(await statusOf(authorization)).toBe(200)
  // A request without a credential still learns where to get one.
  expect(await statusOf()).toBe(401)
  address = '192.0.2.2'
  expect(await statusOf('Bearer the-token-of-bob-0123456789')).toBe(200)
})

test.each([
  { auth: undefined, host: 'evil.example', status: 403 },
  { auth: undefined, host: 'localhost', status: 200 },
  { auth: bearerAuth(token), host: 'gateway.internal', status: 200 },
])(
  'answers $status to metrics asked of $host (with auth: $auth)',
  async ({ auth, host, status }) => {
    await using gateway = gatewayOf({ auth, http: { metricsPath: '/metrics' } })
    const response = await gateway.fetch(
      new Request('http://localhost/metrics', { headers: { host } }),
    )
    expect(response.status).toBe(status)
  },
)

test('does not tell callers where the store is, or which', async () => {
  const told = 'redis at 10.0.0.7:6379 is away'
  const store = new MemoryGatewayStore()
  let isAway = false
  const records = new Proxy(store.records, {
    get: (target, name) => {
      if (isAway) return () => Promise.reject(new GatewayError('UNAVAILABLE', told))
      const method: unknown = Reflect.get(target, name)
      return typeof method === 'function' ? method.bind(target) : method
    },
  })
  const parts = {
    isShared: false,
    isDurable: false,
    records,
    logs: store.logs,
    blobs: store.blobs,
    rates: store.rates,
    isReady: () => store.isReady(),
    close: () => store.close(),
  }
  const warnings: string[] = []
  await using gateway = gatewayOf({
    store: parts,
    log: false,
    observer: {
      warned: (message, cause) => void warnings.push(`${message}: ${String(cause)}`),
    },
  })
  const put = (): Promise<Response> => {
    const headers = { host: 'localhost', authorization }
    const request = { method: 'PUT', headers, body: 'x' }
    return gateway.fetch(new Request('http://localhost/artifacts/a.txt', request))
  }
  const { uri } = (await (await put()).json()) as { uri: string }
  const session = await openSession(gateway.fetch, { authorization })
  isAway = true
  const texts = [await (await put()).text()]
  for (const [method, params] of [
    ['resources/read', { uri }],
    ['resources/list', {}],
    ['resources/subscribe', { uri }],
  ] as const) {
    const message = { jsonrpc: '2.0', id: 1, method, params }
    const answer = await gateway.fetch(post(message, inSession(session, { authorization })))
    texts.push(await answer.text())
  }
  isAway = false
  for (const text of texts) {
    expect(text).toMatch(/cannot be reached now/)
    expect(text).not.toMatch(/10\.0\.0|6379|redis/i)
  }
  expect(warnings.join('\n')).toContain(told)
  await store.close()
})

test.each([
  { action: 'yes' },
  { action: 'accept', content: { answer: { deep: [1] } } },
  { action: 7, content: 'text' },
])('answers a malformed elicitation answer with a short error: %j', async (result) => {
  const agents = new AgentsAtHand({
    *shop(): Iterable<AgentUpdate> {
      yield { type: 'asked', questions: [{ id: 'q', message: 'Which size?' }], state: {} }
    },
  })
  await using gateway = gatewayOf({ sources: [agents] })
  const { url } = await gateway.listen({ port: 0 })
  const session = await WireSession.open(url, { token, capabilities: { elicitation: {} } })
  const call = new EventReader(await session.call(url, 1, 'shop'))
  const question = await call.until(({ method }) => method === 'elicitation/create')
  await session.post(url, { jsonrpc: '2.0', id: question.id, result })
  const answer = await call.until(({ id, method }) => id === 1 && method === undefined)
  const text = JSON.stringify(answer)
  expect(text).toContain('malformed')
  expect(text).not.toMatch(/invalid_union|invalid_type|expected|\\\\n/)
  expect(text.length).toBeLessThan(500)
})

test.each([{}, { elicitation: { form: {} } }])(
  'answers no call with a request for nothing: %j',
  async (clientCapabilities) => {
    const agents = new AgentsAtHand({
      *shop(): Iterable<AgentUpdate> {
        yield { type: 'asked', questions: [], state: {} }
      },
    })
    await using gateway = gatewayOf({ sources: [agents] })
    const meta = { 'io.modelcontextprotocol/clientCapabilities': clientCapabilities }
    const params = { name: 'shop', arguments: { message: 'x' }, _meta: meta }
    const response = await gateway.fetch(modern('tools/call', params, { authorization }))
    expect(await response.json()).toMatchObject({
      result: {
        isError: true,
        content: [{ text: expect.stringContaining('It asked without a question.') }],
        _meta: { reason: 'agent_failed' },
      },
    })
  },
)
