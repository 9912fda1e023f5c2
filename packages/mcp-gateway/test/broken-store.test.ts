import { seededRandom } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import type { AgentCall, AgentUpdate } from '../src/agents/agent.ts'
import { GatewayError } from '../src/errors.ts'
import { bearerAuth, createGateway, MemoryGatewayStore } from '../src/index.ts'
import type { GatewayStore } from '../src/store/gateway-store.ts'
import { AgentsAtHand } from './agents-at-hand.ts'
import { HANDSHAKE, inSession, modern, post, URL_OF_TESTS } from './rpc-requests.ts'

const TOKEN = 'a-token-for-these-tests'
const BEARER = { authorization: `Bearer ${TOKEN}` }
/** What errors of stores, and of the file system below them, are known to say. */
const TOLD =
  'Redis at 10.0.0.7:6379: connect ECONNREFUSED; /var/lib/gateway/store.db is not a regular file'
const ERRORS = [
  () => new GatewayError('UNAVAILABLE', TOLD, { cause: new Error(TOLD) }),
  () => new GatewayError('CONFIG', TOLD),
  () => new GatewayError('CLOSED', TOLD),
  () => Object.assign(new Error(TOLD), { code: 'ENOSPC', path: '/var/lib/gateway' }),
]

const PARTS = ['records', 'logs', 'blobs', 'rates'] as const
type Part = (typeof PARTS)[number]

/** A store of which one part fails with a probability. */
function failing(store: GatewayStore, part: Part, fails: () => Error | undefined): GatewayStore {
  const broken: unknown = new Proxy(store[part], {
    get: (target, name) => {
      const method: unknown = Reflect.get(target, name)
      if (typeof method !== 'function') return method
      return (...args: unknown[]): unknown => {
        const error = fails()
        return error ? Promise.reject(error) : Reflect.apply(method, target, args)
      }
    },
  })
  const { records, logs, blobs, rates } = store
  return {
    records,
    logs,
    blobs,
    rates,
    [part]: broken,
    isShared: false,
    isDurable: true,
    isReady: () => Promise.resolve(true),
    close: () => store.close(),
  }
}

async function* working({ input, artifacts, resume }: AgentCall): AsyncIterable<AgentUpdate> {
  const text = input.kind === 'message' ? input.text : ''
  yield { type: 'status', text: 'works' }
  if (text === 'ask' && resume === undefined) {
    const question = { id: 'q', message: 'Which?' }
    return yield { type: 'asked', questions: [question], state: { a: 1 } }
  }
  yield { type: 'file', file: { name: 'a.txt', data: Buffer.from('x'.repeat(200_000)) } }
  if (text === 'write') await artifacts.write({ name: 'b.txt', data: Buffer.from('x') })
  yield { type: 'done', text: text === 'long' ? 'x'.repeat(2_000_000) : 'done' }
}

/** All kinds of requests, of both eras. `uri` names a file, `session` a session. */
function requestsOf(uri: string, session: string): readonly (() => Request)[] {
  const message = (method: string, params: object, id: number): Request =>
    post({ jsonrpc: '2.0', id, method, params }, inSession(session, BEARER))
  const call = (args: object, meta: object = {}) => ({ name: 'work', arguments: args, _meta: meta })
  const calls = [
    call({ message: 'plain' }, { progressToken: 1 }),
    call({ message: 'write' }),
    call({ message: 'long' }),
    call({ message: 'ask' }),
    call({ message: 'files', files: [uri] }),
    call({ message: 'key' }, { 'io.modelcontextprotocol/idempotency-key': 'k1' }),
    { ...call({ message: 'task' }), task: { ttl: 60_000 } },
  ]
  const file = (init: RequestInit, name: string) => () =>
    new Request(`http://localhost/artifacts/${name}`, {
      ...init,
      headers: { host: 'localhost', ...BEARER },
    })
  return [
    () => post({ jsonrpc: '2.0', id: 1, method: 'initialize', params: HANDSHAKE }, BEARER),
    ...calls.flatMap((params, id) => [
      () => modern('tools/call', params, BEARER),
      () => message('tools/call', params, id + 10),
    ]),
    ...Object.entries({
      'resources/list': {},
      'resources/read': { uri },
      'resources/subscribe': { uri },
      'tasks/list': {},
      'tasks/get': { taskId: 'x'.repeat(32) },
      'prompts/list': {},
      ping: {},
    }).flatMap(([method, params], at) => [
      () => modern(method, params, BEARER),
      () => message(method, params, at + 30),
    ]),
    file({ method: 'PUT', body: 'x' }, 'c.txt'),
    file({}, uri.replace('artifact://', '')),
    () =>
      new Request(URL_OF_TESTS, {
        method: 'DELETE',
        headers: { host: 'localhost', ...inSession(session, BEARER) },
      }),
  ]
}

test.each(PARTS.flatMap((part) => [1, 0.3].map((rate) => [part, rate] as const)))(
  'says nothing of the store to callers, whose %s fail (%f)',
  async (part, rate) => {
    const random = seededRandom(PARTS.indexOf(part) + rate)
    let isBroken = false
    const fails = (): Error | undefined =>
      isBroken && random() < rate ? ERRORS[Math.floor(random() * ERRORS.length)]?.() : undefined
    const store = failing(new MemoryGatewayStore(), part, fails)
    const agents = new AgentsAtHand({ work: working })
    const logged: string[] = []
    await using gateway = createGateway({
      sources: [agents],
      auth: bearerAuth(TOKEN),
      store,
      stateKey: 'a key of at least thirty-two characters',
      requestsPerMinute: 10_000,
      log: {
        warn: (...line) => void logged.push(JSON.stringify(line)),
        error: (...line) => void logged.push(JSON.stringify(line)),
      },
    })
    for (let round = 0; round < (rate === 1 ? 1 : 5); round++) {
      isBroken = false
      const put = new Request('http://localhost/artifacts/a.txt', {
        method: 'PUT',
        body: 'x',
        headers: { host: 'localhost', ...BEARER },
      })
      const { uri } = (await (await gateway.fetch(put)).json()) as { readonly uri: string }
      const opening = post(
        { jsonrpc: '2.0', id: 1, method: 'initialize', params: HANDSHAKE },
        BEARER,
      )
      const opened = await gateway.fetch(opening)
      await opened.text()
      isBroken = true
      for (const request of requestsOf(uri, opened.headers.get('mcp-session-id') ?? '')) {
        const response = await gateway.fetch(request())
        const text = await response.text().catch((error: unknown) => String(error))
        expect(text).not.toMatch(/10\.0\.0|:6379|redis|ECONN|ENOSPC|\/var\/lib|store\.db/i)
        for (const value of response.headers.values()) expect(value).not.toMatch(/10\.0\.0|\/var/)
      }
    }
    expect(logged.join('\n')).toContain('10.0.0.7')
    isBroken = false
  },
)
