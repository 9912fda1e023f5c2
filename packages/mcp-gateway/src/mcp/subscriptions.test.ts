import { LOG_LEVEL_META_KEY } from '@modelcontextprotocol/server'
import { describe, expect, test } from 'vitest'

import { AgentsAtHand, echo } from '../../test/agents-at-hand.ts'
import { settled } from '../../test/manual-clock.ts'
import {
  eventsOf,
  inSession,
  modern,
  openSession,
  post,
  toolCall,
} from '../../test/rpc-requests.ts'
import type { AgentSource, AgentUpdate } from '../agents/agent.ts'
import { bearerAuth } from '../http/auth/bearer.ts'
import { createGateway, type Gateway } from '../gateway.ts'
import { Runtime } from '../gateway/runtime.ts'
import type { GatewayOptions } from '../options.ts'

function* talking(): Iterable<AgentUpdate> {
  yield { type: 'status', text: 'thinking' }
  yield { type: 'done', text: 'Here' }
}

describe('texts of an agent before its result, as log messages', () => {
  const call = (meta: object): Request =>
    modern('tools/call', { name: 'talking', arguments: { message: 'Go' }, _meta: meta })

  test.each([
    ['log', { [LOG_LEVEL_META_KEY]: 'info' }, ['notifications/message']],
    ['log', { progressToken: 1 }, []],
    ['log', { [LOG_LEVEL_META_KEY]: 'error' }, []],
    ['both', { progressToken: 1 }, ['notifications/progress']],
    [
      'both',
      { progressToken: 1, [LOG_LEVEL_META_KEY]: 'debug' },
      ['notifications/message', 'notifications/progress'],
    ],
    ['progress', { progressToken: 1, [LOG_LEVEL_META_KEY]: 'debug' }, ['notifications/progress']],
  ] as const)('channel %s, for a modern client with %j', async (channel, meta, methods) => {
    const sources = [new AgentsAtHand({ talking })]
    await using gateway = createGateway({ sources, log: false, streaming: { channel } })
    const text = await (await gateway.fetch(call(meta))).text()
    expect(text).toContain('Here')
    const said = /notifications\/(?:message|progress)/g
    expect([...new Set(text.match(said))].toSorted()).toEqual(methods)
    expect(text.includes('thinking')).toBe(methods.length > 0)
  })
})

describe('listeners', () => {
  const TOKEN = 'token-of-ada-0123456789'
  const listen = (headers: Readonly<Record<string, string>> = {}): Request =>
    modern('subscriptions/listen', { notifications: { toolsListChanged: true } }, headers)

  /** @returns the first message, and a function that ends the stream */
  async function opened(
    gateway: Gateway,
    headers?: Readonly<Record<string, string>>,
  ): Promise<{ readonly first: string; readonly leave: () => Promise<unknown> }> {
    const response = await gateway.fetch(listen(headers))
    if (response.headers.get('content-type')?.startsWith('application/json')) {
      return { first: await response.text(), leave: async () => undefined }
    }
    const events = eventsOf(response)
    const { value } = await events.next()
    return { first: value?.data ?? '', leave: () => events.return(undefined) }
  }

  const LIMITED: readonly (readonly [string, GatewayOptions, Record<string, string>])[] = [
    ['of all', { sessions: { max: 2 } }, {}],
    ['of one address, without a name', { clientAddress: () => '192.0.2.1' }, {}],
    [
      'of one caller',
      {
        sessions: { maxPerPrincipal: 2 },
        auth: bearerAuth({ ada: { token: TOKEN, scopes: ['*'] } }),
      },
      { authorization: `Bearer ${TOKEN}` },
    ],
  ]

  test.each(LIMITED)('limits the number of open listeners: %s', async (...each) => {
    const [, options, headers] = each
    const sources = [new AgentsAtHand({ echo })]
    await using gateway = new Runtime({ sources, log: false, ...options }, { streamsPerAddress: 2 })
    for (let round = 0; round < 20; round++) {
      const [one, other] = [await opened(gateway, headers), await opened(gateway, headers)]
      expect(one.first).toContain('notifications/subscriptions/acknowledged')
      expect(other.first).toContain('notifications/subscriptions/acknowledged')
      const { first } = await opened(gateway, headers)
      expect(first).toContain('-32603')
      expect(first).toContain('Subscription limit reached')
      await Promise.all([one.leave(), other.leave()])
      await settled()
    }
  })
})

test('accepts 256 subscriptions of a session', async () => {
  const agents = new AgentsAtHand({
    *give(): Iterable<AgentUpdate> {
      yield { type: 'file', file: { name: 'a.txt', data: Buffer.from('one') } }
      yield { type: 'done' }
    },
  })
  await using gateway = createGateway({ sources: [agents], log: false })
  const fetch = (request: Request): Promise<Response> => gateway.fetch(request)
  const id = await openSession(fetch)
  const given = await (await fetch(post(toolCall(1, 'give', 'Go'), inSession(id)))).text()
  const [scope = ''] = /artifact:\/\/[a-z2-7]+/.exec(given) ?? []
  const follow = async (name: string, method = 'resources/subscribe'): Promise<string> => {
    const params = { uri: `${scope}/${name}` }
    return (await fetch(post({ jsonrpc: '2.0', id: 2, method, params }, inSession(id)))).text()
  }
  for (let n = 0; n < 256; n++) expect(await follow(`${n}.txt`)).toContain('"result":{}')
  expect(await follow('256.txt')).toContain('too many subscriptions')
  expect(await follow('0.txt')).toContain('"result":{}') // again
  await follow('0.txt', 'resources/unsubscribe')
  expect(await follow('256.txt')).toContain('"result":{}')
})

test('waits with calls and lists at the start until agents were found', async () => {
  const agents = new AgentsAtHand({ echo })
  let begin: () => void = () => undefined
  const begun = new Promise<void>((resolve) => (begin = resolve))
  const slow: AgentSource = {
    name: 'slow',
    start: async (listener) => {
      await begun
      await agents.start(listener)
    },
    run: (call) => agents.run(call),
    close: () => agents.close(),
  }
  const ci = { token: 'the-token-of-ci-0123', scopes: ['agent:other:call'] }
  const all = { token: 'the-token-of-all-0123', scopes: ['*'] }
  await using gateway = createGateway({ sources: [slow], auth: bearerAuth({ ci, all }) })
  const params = { name: 'echo', arguments: { message: 'hello' } }
  const call = (token: string): Promise<Response> =>
    gateway.fetch(modern('tools/call', params, { authorization: `Bearer ${token}` }))
  const calls = [call(all.token), call(ci.token)]
  const headers = { authorization: `Bearer ${all.token}` }
  const list = gateway.fetch(modern('tools/list', {}, headers))
  let isOver = false
  void Promise.race([...calls, list]).then(() => (isOver = true))
  for (let turn = 0; turn < 20; turn++) await settled()
  expect(isOver).toBe(false)
  begin()
  expect(await (await list).text()).toContain('"echo"')
  const [served, refused] = await Promise.all(calls)
  expect(await served?.text()).toContain('hello')
  expect(refused?.status).toBe(403)
})
