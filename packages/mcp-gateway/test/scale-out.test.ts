import { startRedisServer } from '@x/test-kit'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

import { startReplica, type Replica } from './replica.ts'
import { EventReader, WireSession, type Message } from './wire-session.ts'

const redis = await startRedisServer()
afterAll(() => redis?.[Symbol.asyncDispose]())

const list = (id: number): object => ({ jsonrpc: '2.0', id, method: 'tools/list' })
const isAnswerTo =
  (id: number) =>
  (message: Message): boolean =>
    message.id === id && message.method === undefined
const says = (text: string) => (message: Message) => JSON.stringify(message).includes(text)

describe.runIf(redis)('two processes that are one gateway', () => {
  let a: Replica
  let b: Replica
  const settings = { redis: redis?.url ?? '' }
  beforeAll(async () => {
    ;[a, b] = await Promise.all([startReplica(settings), startReplica(settings)])
  })
  afterAll(async () => {
    await Promise.all([a[Symbol.asyncDispose](), b[Symbol.asyncDispose]()])
  })

  test('a session that began at one is served at the other, at once and every time', async () => {
    const sessions = await Promise.all(
      Array.from({ length: 20 }, async (_, n) => WireSession.open(n % 2 ? a.url : b.url)),
    )
    for (const session of sessions) {
      const answers = await Promise.all(
        [a.url, b.url, a.url, b.url].map((url, id) => session.ask(url, list(id))),
      )
      for (const [id, { status, message }] of answers.entries()) {
        expect(status).toBe(200)
        expect(message).toMatchObject({ id, result: { tools: expect.any(Array) } })
      }
    }
  })

  test('nobody else has it there, either', async () => {
    const session = await WireSession.open(a.url)
    const bob = { authorization: 'Bearer token-of-bob-0123456789' }
    for (const { url } of [b, a]) {
      expect(await session.ask(url, list(1), bob)).toMatchObject({
        status: 404,
        message: { error: { code: -32_001 } },
      })
    }
    expect((await session.ask(b.url, list(1))).status).toBe(200)
  })

  test('a session that ends at one has ended at all', async () => {
    const session = await WireSession.open(a.url)
    await session.ask(b.url, list(1))
    const begun = new EventReader(await session.call(a.url, 2, 'slow'))
    await begun.until(says('begun'))
    const aborted = a.said.length
    expect(await session.end(b.url)).toBe(200)
    await begun.rest()
    await a.hears('aborted slow')
    expect(a.said.slice(aborted)).toContain('aborted slow')
    expect((await session.ask(a.url, list(3))).status).toBe(404)
    expect((await session.ask(b.url, list(3))).status).toBe(404)
  })

  test('an interrupted call is answered at the other: the question came from one, the answer goes to another', async () => {
    const session = await WireSession.open(a.url, { capabilities: { elicitation: {} } })
    const call = new EventReader(await session.call(a.url, 1, 'shop'))
    const question = await call.until(({ method }) => method === 'elicitation/create')
    const result = { action: 'accept', content: { answer: 'L' } }
    const response = await session.post(b.url, { jsonrpc: '2.0', id: question.id, result })
    expect(response.status).toBe(202)
    const answer = await call.until(isAnswerTo(1))
    expect(answer).toMatchObject({ result: { content: [{ type: 'text', text: 'Size L' }] } })
  })

  test('a call is cancelled from the other', async () => {
    const session = await WireSession.open(a.url)
    const call = new EventReader(await session.call(a.url, 1, 'slow'))
    await call.until(says('begun'))
    const before = a.said.length
    const params = { requestId: 1, reason: 'Enough' }
    const at = performance.now()
    await session.post(b.url, { jsonrpc: '2.0', method: 'notifications/cancelled', params })
    for (let n = 1; !a.said.slice(before).includes('aborted slow'); n++) {
      await session.ask(a.url, list(100 + n))
    }
    process.stderr.write(`cancelled elsewhere within ${(performance.now() - at).toFixed(0)} ms\n`)
    await call.leave()
  })

  test('a lost stream is read on at the other, complete, in order and once', async () => {
    const session = await WireSession.open(a.url)
    const before = new EventReader(await session.call(a.url, 1, 'slow'))
    await before.until(says('begun'))
    await before.leave()
    const taken = await session.listen(b.url, before.lastId)
    process.stderr.write(
      `${taken.status} ${before.lastId} ${taken.status === 200 ? '' : await taken.text()}\n`,
    )
    const after = new EventReader(taken)
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
    expect(a.said).not.toContain('called slow twice')
  })

  test('a change is heard of at the other, on the stream of a session that began elsewhere', async () => {
    const session = await WireSession.open(a.url)
    const stream = new EventReader(await session.listen(b.url))
    const heard = stream.until(({ method }) => method === 'notifications/tools/list_changed')
    a.tell('join newcomer')
    await heard
    await stream.leave()
  })
})
