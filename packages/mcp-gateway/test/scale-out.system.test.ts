import { setTimeout as sleep } from 'node:timers/promises'

import { startOwnRedis, startRedisServer } from '@x/internal/testing'
import { deferred } from '@x/mcp-testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

import { connect } from './mcp-clients.ts'
import { startReplica, type Replica } from './replica.ts'
import { JSON_HEADERS, modernParts } from './rpc-requests.ts'
import { EventReader, WireSession, type Message } from './wire-session.ts'

const redis = await startRedisServer()
afterAll(() => redis?.[Symbol.asyncDispose]())

const list = (id: number): object => ({ jsonrpc: '2.0', id, method: 'tools/list' })
const isAnswerTo =
  (id: number) =>
  (message: Message): boolean =>
    message.id === id && message.method === undefined
const says = (text: string) => (message: Message) => JSON.stringify(message).includes(text)

/** Each test starts `a`, and most of them kill it. `b` goes on. */
describe.runIf(redis)('two processes that are one gateway', () => {
  let b: Replica
  const settings = { redis: redis?.url ?? '' }
  beforeAll(async () => {
    b = await startReplica(settings)
  })
  afterAll(() => b[Symbol.asyncDispose]())

  test('a lost stream is read on at the other, complete, in order and once', async () => {
    await using a = await startReplica(settings)
    const session = await WireSession.open(a.url)
    const before = new EventReader(await session.call(a.url, 1, 'slow'))
    await before.until(says('begun'))
    await before.leave()
    const after = new EventReader(await session.listen(b.url, before.lastId))
    a.tell('finish')
    const messages = await after.rest()
    expect(messages.filter(isAnswerTo(1))).toHaveLength(1)
    expect(messages.at(-1)).toMatchObject({
      result: { content: [{ type: 'text', text: 'begun and finished' }] },
    })
    const progress = [...before.read, ...messages]
      .map(({ params }) => params?.['progress'])
      .filter((each) => typeof each === 'number')
    expect(progress).toEqual(progress.toSorted((x, y) => x - y))
    expect(new Set(progress).size).toBe(progress.length)
  })

  test('clients behind a load balancer that knows no sessions notice nothing, also when one process is killed', async () => {
    await using a = await startReplica(settings)
    const living = new Set([a.url, b.url])
    let turn = 0
    const balance = (_url: string | URL, init?: RequestInit): Promise<Response> => {
      // Clients of 2026-07-28 do not subscribe again when their stream is lost: this one is at the process that stays.
      const isListen =
        typeof init?.body === 'string' && init.body.includes('"subscriptions/listen"')
      const urls = isListen ? [b.url] : [...living]
      return fetch(urls[turn++ % urls.length] ?? '', init)
    }
    const kinds = ['v1', 'v2 legacy', 'v2 pinned'] as const
    const changes = kinds.map(() => deferred())
    const clients = await Promise.all(
      kinds.map((kind, n) =>
        connect(kind, 'http://balancer.example/mcp', {
          headers: { authorization: 'Bearer token-of-ada-0123456789' },
          fetch: balance,
          answer: (message) => ({ answer: message.includes('size') ? 'S' : '' }),
          onToolsChanged: () => changes[n]?.resolve(),
        }),
      ),
    )
    const useAll = async (): Promise<void> => {
      for (const client of clients) {
        const echoes = Array.from({ length: 6 }, (_, n) => client.callTool('echo', `Call ${n}`))
        for (const [n, { content }] of (await Promise.all(echoes)).entries()) {
          expect(content).toEqual([{ type: 'text', text: `Call ${n}` }])
        }
        for (let n = 0; n < 3; n++) {
          const { content } = await client.callTool('shop', 'A shirt')
          expect(content).toEqual([{ type: 'text', text: 'Size S' }])
        }
      }
    }
    await useAll()
    living.delete(a.url)
    await a.kill()
    await useAll()
    b.tell('join survivor')
    await Promise.all(changes.map(({ promise }) => promise))
    for (const client of clients) await client[Symbol.asyncDispose]()
  })

  test('when one is killed, its sessions, files and questions are the other one’s, and its calls have failed, once', async () => {
    await using a = await startReplica(settings)
    const before = b.said.length
    const session = await WireSession.open(a.url, { capabilities: { elicitation: {} } })
    const made = await session.ask(a.url, {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'files', arguments: { message: 'Go' } },
    })
    const slow = new EventReader(await session.call(a.url, 2, 'slow'))
    await slow.until(says('begun'))
    const shop = new EventReader(await session.call(a.url, 3, 'shop'))
    const question = await shop.until(({ method }) => method === 'elicitation/create')
    const asked = await modernCall(a.url, 7, { name: 'shop', arguments: { message: 'A shirt' } })
    const listening = new EventReader(await session.listen(a.url))
    const ended = listening.rest()
    await a.kill()
    await ended

    expect((await session.ask(b.url, list(4))).status).toBe(200)
    const read = await session.ask(b.url, {
      jsonrpc: '2.0',
      id: 5,
      method: 'resources/read',
      params: { uri: uriIn(made.message) },
    })
    expect(read.message.result?.['contents']).toMatchObject([
      { text: 'It was made before the process died.' },
    ])
    const listed = await session.ask(b.url, { jsonrpc: '2.0', id: 6, method: 'resources/list' })
    expect(listed.message.result?.['resources']).toHaveLength(1)

    const rest = await new EventReader(await session.listen(b.url, slow.lastId)).rest()
    expect(rest).toMatchObject([
      { id: 2, error: { message: expect.stringContaining('was not repeated') } },
    ])
    const result = { action: 'accept', content: { answer: 'L' } }
    const answered = await session.ask(b.url, { jsonrpc: '2.0', id: question.id, result })
    expect(answered).toMatchObject({
      status: 400,
      message: { error: { message: expect.stringContaining('call again') } },
    })
    expect(b.said.slice(before)).not.toContain('called slow')
    const continued = await modernCall(b.url, 8, {
      name: 'shop',
      arguments: { message: 'A shirt' },
      requestState: asked.result?.['requestState'],
      inputResponses: { i0: { action: 'accept', content: { answer: 'XL' } } },
    })
    expect(continued.result?.['content']).toEqual([{ type: 'text', text: 'Size XL' }])
    const shops = b.said.slice(before).filter((line) => line.endsWith('shop'))
    expect(shops).toEqual(['resumed shop'])
    const stream = new EventReader(await session.listen(b.url))
    await stream.until(({ method }) => method === 'notifications/tools/list_changed')
    b.tell('join heir')
    await stream.until(({ method }) => method === 'notifications/tools/list_changed')
    await stream.leave()
  })

  test('a listener of 2026-07-28 whose process is killed loses its stream, and listens again at another process', async () => {
    await using a = await startReplica(settings)
    const listen = async ({ url }: Replica, id: number): Promise<EventReader> => {
      const params = { notifications: { toolsListChanged: true } }
      const method = 'subscriptions/listen'
      const reader = new EventReader(await modernPost(url, id, { method, params }))
      await reader.until((message) => message.method === 'notifications/subscriptions/acknowledged')
      return reader
    }
    const isChange = ({ method }: Message): boolean => method === 'notifications/tools/list_changed'
    const before = await listen(a, 1)
    const other = await listen(b, 2)
    b.tell('join first')
    await Promise.all([before.until(isChange), other.until(isChange)])
    await Promise.all([expect(before.until(() => false)).rejects.toThrow('terminated'), a.kill()])
    // When a gateway closes, there is an answer to the request.
    expect(before.read.some(isAnswerTo(1))).toBe(false)

    /** Waits for changes until the list of the living process has a tool. */
    const isListed = async (name: string, listener: EventReader): Promise<void> => {
      for (;;) {
        const response = await modernPost(b.url, 4, { method: 'tools/list' })
        if ((await response.text()).includes(`"name":"${name}"`)) return
        await listener.until(isChange)
      }
    }
    b.tell('join missed')
    await isListed('missed', other)
    const after = await listen(b, 3)
    b.tell('join last')
    await after.until(isChange)
    await isListed('last', after)
    await Promise.all([after.leave(), other.leave()])
  })
})

test.runIf(redis)(
  'processes that are replaced one after the other under load lose no call, and run none twice',
  async () => {
    const settings = { redis: redis?.url ?? '', requestsPerMinute: 1e6 }
    const all: Replica[] = []
    // Like a balancer with readiness probes: a process gets requests until its probe fails.
    const ready = new Set<string>()
    const waiting = new Map<string, number>()
    let turn = 0
    const balance = async (_url: string | URL, init?: RequestInit): Promise<Response> => {
      const url = [...ready][turn++ % ready.size] ?? ''
      waiting.set(url, (waiting.get(url) ?? 0) + 1)
      try {
        return await fetch(url, init)
      } finally {
        waiting.set(url, (waiting.get(url) ?? 0) - 1)
      }
    }
    const start = async (): Promise<Replica> => {
      const replica = await startReplica(settings)
      all.push(replica)
      ready.add(replica.url)
      return replica
    }
    const stop = (replica: Replica): Promise<void> =>
      replica.stop(async () => {
        while ((await fetch(new URL('/readyz', replica.url))).ok) await sleep(10)
        ready.delete(replica.url)
        while ((waiting.get(replica.url) ?? 0) > 0) await sleep(10)
      })
    let [a, b] = await Promise.all([start(), start()])
    const kinds = ['v1', 'v2 legacy', 'v2 pinned'] as const
    const clients = await Promise.all(
      [...kinds, ...kinds, ...kinds].map((kind) =>
        connect(kind, 'http://balancer.example/mcp', {
          headers: { authorization: 'Bearer token-of-ada-0123456789' },
          fetch: balance,
        }),
      ),
    )
    let made = 0
    const over = new AbortController()
    const load = clients.map(async (client) => {
      while (!over.signal.aborted) {
        const message = `${made++}`
        const { content } = await client.callTool('counted', message)
        expect(content).toEqual([{ type: 'text', text: `Counted ${message}` }])
      }
    })
    const replaceAll = async (): Promise<void> => {
      for (let round = 0; round < 2; round++) {
        const [nextA] = [await start(), await stop(a)]
        const [nextB] = [await start(), await stop(b)]
        ;[a, b] = [nextA, nextB]
      }
    }
    try {
      await Promise.race([replaceAll(), Promise.all(load)])
      over.abort()
      await Promise.all(load)
      for (const client of clients) await client[Symbol.asyncDispose]()
    } finally {
      over.abort()
      await Promise.all(all.map((replica) => replica[Symbol.asyncDispose]()))
    }
    const ran = all.flatMap(({ said }) => said).filter((line) => line.startsWith('ran '))
    expect([ran.length, new Set(ran).size]).toEqual([made, made])
    expect(all).toHaveLength(6)
  },
)

test.runIf(redis)(
  'while Redis is away, nothing is made up; when it is back, all goes on',
  async () => {
    await using server = await startOwnRedis('--appendonly', 'yes', '--appendfsync', 'always')
    const settings = { redis: server.url }
    await using a = await startReplica(settings)
    await using b = await startReplica(settings)
    const session = await WireSession.open(a.url)
    const other = await WireSession.open(a.url)
    await server.stop()

    const unknown = await session.ask(b.url, list(1))
    expect(unknown).toMatchObject({ status: 503, message: { error: { code: -32_000 } } })
    await expect(WireSession.open(b.url)).rejects.toThrow('503')
    const known = await session.ask(a.url, list(2))
    expect(known).toMatchObject({ status: 200, message: { id: 2, result: {} } })
    const asked = await modernCall(a.url, 3, { name: 'shop', arguments: { message: 'A shirt' } })
    expect(asked.result).toMatchObject({ isError: true, _meta: { reason: 'unavailable' } })
    const readyz = (url: string): Promise<Response> => fetch(new URL('/readyz', url))
    // A result is kept for 5 s, and the gateway has made one when it started.
    await expect.poll(async () => (await readyz(a.url)).status).toBe(503)
    expect(await (await readyz(a.url)).json()).toEqual({
      status: 'unavailable',
      reasons: ['store'],
    })
    expect((await fetch(new URL('/healthz', a.url))).status).toBe(200)

    await server.start()
    for (const { url } of [a, b]) {
      for (const each of [session, other]) {
        for (let n = 0; (await each.ask(url, list(n))).status === 503; n++);
        expect((await each.ask(url, list(4))).status).toBe(200)
      }
      await expect.poll(async () => (await readyz(url)).status).toBe(200)
    }
    const stream = new EventReader(await session.listen(b.url))
    a.tell('join later')
    await stream.until(({ method }) => method === 'notifications/tools/list_changed')
    await stream.leave()
  },
)

function uriIn({ result }: Message): string {
  const [uri] = /artifact:\/\/[^"?]+/.exec(JSON.stringify(result)) ?? []
  if (uri === undefined) throw new Error(`No file in ${JSON.stringify(result)}`)
  return uri
}

async function modernCall(url: string, id: number, params: object): Promise<Message> {
  const response = await modernPost(url, id, { method: 'tools/call', params })
  return (await response.json()) as Message
}

/** Sends a request of 2026-07-28. */
async function modernPost(
  url: string,
  id: number,
  { method, params = {} }: { readonly method: string; readonly params?: object },
): Promise<Response> {
  const meta = { 'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {} } } }
  const { message, headers } = modernParts(method, { ...params, _meta: meta }, id)
  const authorization = 'Bearer token-of-ada-0123456789'
  return fetch(url, {
    method: 'POST',
    headers: { ...JSON_HEADERS, authorization, ...headers },
    body: JSON.stringify(message),
  })
}
