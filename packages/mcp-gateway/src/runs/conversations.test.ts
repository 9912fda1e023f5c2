import type { GivenRuns } from '../../test/settings.ts'
import { reasonOf, replicas } from '../../test/runs-world.ts'
import { deferred } from '@x/mcp-testing'
import { isRecord } from '@x/internal'
import { expect, test, vi } from 'vitest'

import { settled } from '../../test/manual-clock.ts'
import {
  principalNamed,
  callRuns,
  requestOf,
  tool,
  type Script,
} from '../../test/scripted-source.ts'
import type { AgentUpdate } from '../agents/agent.ts'
import { GatewayError } from '../errors.ts'
import { listAll } from '../store/gateway-store.ts'
import type { ToolOutcome } from './order.ts'

/** Two processes with one store, in mode `thread`. */
function inThreads(script: Script, options: Partial<GivenRuns> = {}) {
  const world = replicas(script, { mode: 'thread', ...options })
  return { ...world, threads: () => world.source.calls.map(({ thread }) => thread) }
}

function* done(): Iterable<AgentUpdate> {
  yield { type: 'done', text: 'Done' }
}

const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/

test('gives the calls of one caller one thread, in all processes, and other callers their own', async () => {
  await using world = inThreads(done)
  await callRuns(world.a, tool, requestOf('Hello'))
  await callRuns(world.b, tool, requestOf('Again'))
  await callRuns(world.a, tool, requestOf('Hello', { principal: principalNamed('bob') }))
  const [first, second, ...others] = world.threads()
  expect(first).toMatch(UUID)
  expect(second).toBe(first)
  expect(new Set([first, ...others]).size).toBe(2)
})

test('gives callers without a name a thread only if they have a session', async () => {
  await using world = inThreads(done)
  const principal = { ...principalNamed('mcp_user'), isAnonymous: true }
  for (const scope of [undefined, 'one', 'one', 'another']) {
    await callRuns(world.a, tool, requestOf('Hello', { principal, scope }))
  }
  const [none, first, second, other] = world.threads()
  expect(none).toBeUndefined()
  expect(first).toMatch(UUID)
  expect(second).toBe(first)
  expect(other).not.toBe(first)
})

test('gives calls no thread in mode `run`', async () => {
  await using world = inThreads(done, { mode: 'run' })
  await callRuns(world.a, tool, requestOf('Hello'))
  expect(world.threads()).toEqual([undefined])
})

test('lets a call wait for the call before it, and answers `busy` while another process runs one', async () => {
  const [begun, go] = [deferred(), deferred()]
  await using world = inThreads(async function* slow({ input }): AsyncIterable<AgentUpdate> {
    if (input.kind === 'message' && input.text === 'first') {
      begun.resolve()
      await go.promise
    }
    yield { type: 'done', text: 'Done' }
  })
  const first = callRuns(world.a, tool, requestOf('first'))
  await begun.promise
  const second = callRuns(world.a, tool, requestOf('second'))
  expect(reasonOf(await callRuns(world.b, tool, requestOf('third')))).toBe('busy')
  expect(world.source.calls).toHaveLength(1)
  go.resolve()
  await Promise.all([first, second])
  expect(new Set(world.threads()).size).toBe(1)
  expect(world.source.calls).toHaveLength(2)
})

test('continues the thread of a process that died as soon as its lease has ended', async () => {
  const begun = deferred()
  const go = deferred()
  await using world = inThreads(async function* slow({ input }): AsyncIterable<AgentUpdate> {
    if (input.kind === 'message' && input.text === 'first') {
      begun.resolve()
      await go.promise
    }
    yield { type: 'done', text: 'Done' }
  })
  const first = callRuns(world.a, tool, requestOf('first'))
  await begun.promise
  for await (const { key } of listAll(world.store.records, 'process:')) {
    await world.store.records.delete(key)
  }
  expect(reasonOf(await callRuns(world.b, tool, requestOf('second')))).toBeUndefined()
  go.resolve()
  await first
  expect(reasonOf(await callRuns(world.b, tool, requestOf('third')))).toBeUndefined()
  const threads = world.threads()
  expect([threads.length, new Set(threads).size]).toEqual([3, 1])
})

test('begins the next call in the same process if the store failed at the end of the last one', async () => {
  await using world = inThreads(done)
  const { records } = world.store
  const put = records.put.bind(records)
  let isAway = true
  vi.spyOn(records, 'put').mockImplementation(async (key, value, ...rest) => {
    const isEnd = isRecord(value) && value['phase'] === 'free'
    if (isEnd && isAway) throw new GatewayError('UNAVAILABLE', 'The store is away')
    return put(key, value, ...rest)
  })
  await callRuns(world.a, tool, requestOf('first'))
  isAway = false
  expect(reasonOf(await callRuns(world.a, tool, requestOf('second')))).toBeUndefined()
  const [first, second] = world.threads()
  expect(second).toBe(first)
})

test('ends the wait of a call when its caller leaves or after 30 s, and lets the next call begin', async () => {
  const go = deferred()
  await using world = inThreads(async function* slow(): AsyncIterable<AgentUpdate> {
    await go.promise
    yield { type: 'done', text: 'Done' }
  })
  const first = callRuns(world.a, tool, requestOf('1'))
  const stop = new AbortController()
  const second = callRuns(world.a, tool, requestOf('2', { signal: stop.signal }))
  const third = callRuns(world.a, tool, requestOf('3'))
  await settled()
  stop.abort()
  expect(reasonOf(await second)).toBe('cancelled')
  await world.clock.advance(30_000)
  expect(reasonOf(await third)).toBe('busy')
  const fourth = callRuns(world.a, tool, requestOf('4'))
  go.resolve()
  expect(reasonOf(await first)).toBeUndefined()
  expect(reasonOf(await fourth)).toBeUndefined()
})

test('refuses an answer after the conversation continued without it', async () => {
  await using world = inThreads(function* ask({ resume, input }): Iterable<AgentUpdate> {
    const isQuestion = input.kind === 'message' && input.text === 'Order' && !resume
    if (!isQuestion) yield { type: 'done', text: 'Done' }
    else yield { type: 'asked', questions: [{ id: 'q', message: 'Which?' }], state: {} }
  })
  const asked = requestOf('Order', { canAsk: true })
  const responses = { i0: { action: 'accept', content: { answer: 'this' } } }
  const answer = async (): Promise<ToolOutcome> => {
    const outcome = await callRuns(world.a, tool, asked)
    if (outcome.type !== 'input') throw new Error('it did not ask')
    return outcome
  }
  const open = await answer()
  if (open.type !== 'input') return
  const given = { ...asked, resume: { state: open.state, responses } }
  expect(reasonOf(await callRuns(world.b, tool, given))).toBeUndefined()

  const left = await answer()
  if (left.type !== 'input') return
  await callRuns(world.b, tool, requestOf('Something else'))
  const late = { ...asked, resume: { state: left.state, responses } }
  expect(reasonOf(await callRuns(world.a, tool, late))).toBe('expired')
  expect(new Set(world.threads()).size).toBe(1)
})

test('deletes an expired conversation, and the thread of its agent', async () => {
  await using world = inThreads(done)
  await callRuns(world.a, tool, requestOf('Hello'))
  await world.clock.advance(86_399_000)
  expect(world.source.forgottenThreads).toEqual([])
  await world.clock.advance(61_000)
  expect(world.source.forgottenThreads).toEqual(world.threads())
  await callRuns(world.a, tool, requestOf('Hello'))
  const [first, second] = world.threads()
  expect(second).not.toBe(first)
})

test('continues a conversation from the stored row of an earlier version', async () => {
  await using world = inThreads(done)
  const hash = '0fa436a121731109ff929a42103306f407faf331d248364903e534f9b652898e'
  const thread = '00000000-0000-4000-8000-000000000000'
  const runId = 'run_0123456789abcdef'
  const expiresAt = world.clock.now() + 60_000
  const row = { agentId: 'support', thread, runId, phase: 'free', expiresAt }
  await world.store.records.put(`conversation:${hash}`, row, { ttlMs: 60_000 })
  await callRuns(world.a, tool, requestOf('Hello'))
  expect(world.threads()).toEqual([thread])
})
