import { describe, expect, test } from 'vitest'

import { AgentsAtHand, echo, endless, type Behaviour } from '../../test/agents-at-hand.ts'
import { ManualClock, settled } from '../../test/manual-clock.ts'
import { eventsOf, inSession, openSession, post, toolCall } from '../../test/rpc-requests.ts'
import { metaOf, runsOf, waitingForTheEnd } from '../../test/runs-world.ts'
import { principalNamed, callRuns, requestOf, tool } from '../../test/scripted-source.ts'
import { DEFAULTS } from '../../test/settings.ts'
import { EventReader, WireSession } from '../../test/wire-session.ts'
import { createGateway } from '../gateway.ts'
import { bearerAuth } from '../http/auth/bearer.ts'
import { anonymousPrincipal, type Principal, accountOf } from '../internal/principal.ts'
import { MemoryGatewayStore } from '../store/memory-store.ts'
import { RUN_QUEUE, RunSlots } from './slots.ts'

const forEver = new AbortController().signal
const nobody = anonymousPrincipal()
const [ada, bob] = [principalNamed('ada'), principalNamed('bob')]

describe('a queue', () => {
  test('has 128 places, of which one owner gets half', async () => {
    const slots = new RunSlots(new ManualClock(), {
      ...DEFAULTS.runs,
      ...RUN_QUEUE,
      maxConcurrent: 1,
    })
    await slots.take('ada', forEver)
    const [first] = Array.from({ length: 64 }, () => slots.take('ada', forEver))
    await expect(slots.take('ada', forEver)).rejects.toMatchObject({ reason: 'busy' })
    for (let n = 0; n < 64; n++) void slots.take('bob', forEver)
    await expect(slots.take('eve', forEver)).rejects.toMatchObject({ reason: 'busy' })
    expect(slots.size).toEqual({ taken: 1, queued: 128 })
    slots.release('ada')
    await first
    expect(slots.size).toEqual({ taken: 1, queued: 127 })
  })

  test('rejects a call that waits too long, and keeps nothing of it', async () => {
    const clock = new ManualClock()
    const slots = new RunSlots(clock, { ...DEFAULTS.runs, ...RUN_QUEUE, maxConcurrent: 0 })
    const calling = slots.take('ada', forEver)
    void clock.advance(30_000)
    await expect(calling).rejects.toMatchObject({ reason: 'busy' })
    expect(slots.size).toEqual({ taken: 0, queued: 0 })
  })
})

test('counts slots by principal, and by network for callers without a name', () => {
  const of = (principal: Principal, address?: string): string => accountOf({ principal, address })
  expect(of(ada, '192.0.2.1')).toBe(of(ada, '192.0.2.2'))
  expect(of(ada, '192.0.2.1')).not.toBe(of(bob, '192.0.2.1'))
  expect(of(nobody, '192.0.2.1')).toBe(of(nobody, '::ffff:192.0.2.1'))
  expect(of(nobody, '192.0.2.1')).not.toBe(of(nobody, '192.0.2.2'))
  expect(of(nobody, '2001:db8::1')).toBe(of(nobody, '2001:db8::2'))
  expect(of(nobody)).toBe(of(nobody))
})

test('queues calls over the limit of runs, and answers `busy` over the limit of the queue', async () => {
  await using world = runsOf(waitingForTheEnd, { maxConcurrent: 1 })
  const caller = new AbortController()
  const first = callRuns(world.calls, tool, requestOf('1', { signal: caller.signal }))
  const [second, ...others] = Array.from({ length: 64 }, () =>
    callRuns(world.calls, tool, requestOf('2')),
  )
  await settled()
  expect(await callRuns(world.calls, tool, requestOf('3'))).toMatchObject({
    result: { isError: true, _meta: { reason: 'busy', retryAfterMs: 5000 } },
  })
  caller.abort()
  await first
  await settled()
  expect(world.source.calls).toHaveLength(2)
  await world.calls.close()
  for (const each of await Promise.all([second!, ...others])) {
    expect(metaOf(each)).toMatchObject({ reason: 'cancelled' })
  }
})

test('runs the call of another caller when one caller has reached its limit', async () => {
  await using world = runsOf(waitingForTheEnd, { maxConcurrentPerPrincipal: 1 })
  const one = requestOf('1', { principal: principalNamed('ada') })
  const all = [callRuns(world.calls, tool, one), callRuns(world.calls, tool, one)]
  all.push(callRuns(world.calls, tool, requestOf('2', { principal: principalNamed('bob') })))
  await settled()
  expect(world.source.calls.map(({ principal }) => principal.id)).toEqual(['ada', 'bob'])
  await world.calls.close()
  await Promise.all(all)
})

test('sends heartbeats to a call that waits in the queue', async () => {
  const messages: string[] = []
  await using world = runsOf(waitingForTheEnd, { maxConcurrent: 1 })
  const first = callRuns(world.calls, tool, requestOf('1'))
  const progress = ({ message }: { readonly message: string }) => void messages.push(message)
  const second = callRuns(world.calls, tool, requestOf('2', { progress }))
  await settled()
  await world.clock.advance(29_999)
  expect(messages).toEqual(['Still working (15 s)'])
  await world.calls.close()
  await Promise.all([first, second])
  await world.clock.advance(60_000)
  expect(messages).toHaveLength(1)
})

test('leaves slots to callers without a name at another address', async () => {
  await using gateway = createGateway({
    sources: [new AgentsAtHand({ echo, endless })],
    http: { proxies: 1, shutdownGraceMs: 0 },
    runs: { maxConcurrentPerPrincipal: 1 },
  })
  const fetch = (request: Request): Promise<Response> => gateway.fetch(request)
  const call = async (address: string, name: string): Promise<Response> => {
    const from = { 'x-forwarded-for': address }
    const id = await openSession(fetch, from)
    return fetch(post(toolCall(1, name, 'Hello'), inSession(id, from)))
  }
  const running = eventsOf(await call('192.0.2.1', 'endless'))
  await running.next()
  let isOver = false
  const waiting = call('192.0.2.1', 'echo').then(async (answer) => answer.text())
  void waiting.then(() => (isOver = true))
  expect(await (await call('192.0.2.2', 'echo')).text()).toContain('"text":"Hello"')
  expect(isOver).toBe(false)
  await running.return(undefined)
  await gateway.close()
  expect(await waiting).toContain('"reason":"cancelled"')
})

const asking: Behaviour = function* ask({ resume }) {
  if (resume) yield { type: 'done', text: JSON.stringify(resume.answers) }
  else yield { type: 'asked', questions: [{ id: 'q', message: 'Which size?' }], state: {} }
}

test('gives no slot to a run that waits for an answer, and stops its time limit', async () => {
  const clock = new ManualClock()
  await using store = new MemoryGatewayStore({ now: () => clock.now() })
  await using gateway = createGateway({
    sources: [new AgentsAtHand({ asking, echo })],
    auth: bearerAuth('token-of-ada-0123456789'),
    runs: { maxConcurrent: 1, timeoutMs: 1000 },
    clock,
    store,
  })
  const { url } = await gateway.listen({ port: 0 })
  const session = await WireSession.open(url, { capabilities: { elicitation: {} } })
  const call = new EventReader(await session.call(url, 1, 'asking'))
  const question = await call.until(({ method }) => method === 'elicitation/create')
  const other = await session.ask(url, {
    jsonrpc: '2.0',
    id: 2,
    method: 'tools/call',
    params: { name: 'echo', arguments: { message: 'Hello' } },
  })
  expect(other.message.result).toMatchObject({ content: [{ text: 'Hello' }] })
  await clock.advance(60_000)
  const result = { action: 'accept', content: { answer: 'L' } }
  await session.post(url, { jsonrpc: '2.0', id: question.id, result })
  const end = await call.until(({ id }) => id === 1)
  expect(end.result).toMatchObject({
    content: [{ text: '{"q":{"action":"accept","content":{"answer":"L"}}}' }],
  })
})
