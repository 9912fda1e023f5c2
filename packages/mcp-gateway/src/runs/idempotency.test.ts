import { runsOptions } from '../../test/settings.ts'
import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { ManualClock, settled } from '../../test/manual-clock.ts'
import {
  principalNamed,
  callRuns,
  requestOf,
  ScriptedSource,
  tool,
  type Script,
} from '../../test/scripted-source.ts'
import { newScopeId } from '../files/namespaces.ts'
import { MemoryGatewayStore } from '../store/memory-store.ts'
import { Runs } from './runs.ts'
import type { ToolOutcome } from './order.ts'

function replicas(script: Script) {
  const store = new MemoryGatewayStore()
  const source = new ScriptedSource(script)
  const [a, b] = [
    new Runs(runsOptions({ agents: source, records: store.records })),
    new Runs(runsOptions({ agents: source, records: store.records })),
  ]
  return {
    a,
    b,
    source,
    store,
    [Symbol.asyncDispose]: async () => {
      await Promise.all([a.close(), b.close()])
      await store.close()
    },
  }
}

const order = requestOf('Order', { idempotencyKey: 'k1' })
const done: Script = () => [{ type: 'done', text: 'Ordered' }]

test('lets a repeated call join the call that runs, and returns its result later, in all processes', async () => {
  const go = deferred()
  await using world = replicas(async function* () {
    await go.promise
    yield { type: 'done', text: 'Ordered' }
  })
  const first = callRuns(world.a, tool, order)
  const second = callRuns(world.a, tool, order)
  await settled()
  expect(await callRuns(world.b, tool, order)).toMatchObject({
    result: { isError: true, _meta: { reason: 'busy' } },
  })
  go.resolve()
  expect(await second).toEqual(await first)
  expect(await callRuns(world.b, tool, order)).toEqual(await first)
  expect(world.source.calls).toHaveLength(1)
})

const hanging: Script = async function* ({ signal }) {
  await new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason))
  })
  yield { type: 'done' }
}

test('stops a call when the last of its repeats is cancelled', async () => {
  await using world = replicas(hanging)
  const [first, second] = [new AbortController(), new AbortController()]
  const outcomes = [first, second].map(({ signal }) =>
    callRuns(world.a, tool, { ...order, signal }),
  )
  await settled()
  first.abort()
  await settled()
  expect(world.source.calls.map(({ signal }) => signal.aborted)).toEqual([false])
  second.abort()
  expect(world.source.calls.map(({ signal }) => signal.aborted)).toEqual([true])
  for (const outcome of await Promise.all(outcomes)) {
    expect(outcome).toMatchObject({ result: { isError: true, _meta: { reason: 'cancelled' } } })
  }
  expect(world.a.size).toBe(0)
})

test('makes a call again that is repeated while it is being stopped', async () => {
  const stopped = deferred()
  let count = 0
  await using world = replicas(async function* (call) {
    count += 1
    if (count === 1) {
      await new Promise((resolve) => {
        call.signal.addEventListener('abort', resolve)
      })
      await stopped.promise
    }
    yield { type: 'done', text: 'Ordered' }
  })
  const caller = new AbortController()
  const first = callRuns(world.a, tool, { ...order, signal: caller.signal })
  await settled()
  caller.abort()
  const second = callRuns(world.a, tool, order)
  await settled()
  stopped.resolve()
  expect(await first).toMatchObject({ result: { _meta: { reason: 'cancelled' } } })
  expect(await second).toMatchObject({ result: { content: [{ text: 'Ordered' }] } })
  expect(count).toBe(2)
})

test.each([
  { title: 'other arguments', request: { ...order, arguments: { message: 'Two' } } },
  { title: 'another caller', request: { ...order, principal: principalNamed('bob') } },
  { title: 'another key', request: { ...order, idempotencyKey: 'k2' } },
  { title: 'no key', request: { ...order, idempotencyKey: undefined } },
])('makes a call with $title', async ({ request }) => {
  await using world = replicas(done)
  await callRuns(world.a, tool, order)
  await callRuns(world.a, tool, request)
  expect(world.source.calls).toHaveLength(2)
})

test('gives callers without a name no result of another caller', async () => {
  await using world = replicas(done)
  const request = { ...order, principal: { ...principalNamed('everybody'), isAnonymous: true } }
  await callRuns(world.a, tool, request)
  await callRuns(world.a, tool, request)
  expect(world.source.calls).toHaveLength(2)
  // A scope that can be guessed identifies no caller.
  await callRuns(world.a, tool, { ...request, scope: 'mine' })
  await callRuns(world.a, tool, { ...request, scope: 'mine' })
  expect(world.source.calls).toHaveLength(4)
  const scope = newScopeId()
  await callRuns(world.a, tool, { ...request, scope })
  await callRuns(world.a, tool, { ...request, scope })
  expect(world.source.calls).toHaveLength(5)
})

test('makes a call again that failed or asked', async () => {
  let answers = 0
  await using world = replicas(() => {
    answers += 1
    return answers === 1
      ? [{ type: 'failed', reason: 'Not now.' }]
      : [{ type: 'asked', questions: [{ id: 'q', message: 'Size?' }], state: {} }]
  })
  for (let count = 0; count < 3; count += 1) {
    await callRuns(world.a, tool, order)
  }
  expect(world.source.calls).toHaveLength(3)
})

/** Two processes with one store. The clock of the first can stand still, as after `kill -9`. */
function mortals(script: Script) {
  const clocks = { store: new ManualClock(), a: new ManualClock(), b: new ManualClock() }
  const store = new MemoryGatewayStore({ now: () => clocks.store.now() })
  const source = new ScriptedSource(script)
  const [a, b] = [clocks.a, clocks.b].map((clock) => {
    return new Runs(runsOptions({ agents: source, records: store.records, clock }))
  })
  if (!a || !b) throw new Error('There are two')
  return {
    a,
    b,
    source,
    /** Advances the clock of the store, and that of the first process if it is alive. */
    async advance(ms: number, { isAlive }: { readonly isAlive: boolean }): Promise<void> {
      for (let passed = 0; passed < ms; passed += 500) {
        await clocks.store.advance(500)
        if (isAlive) await clocks.a.advance(500)
      }
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([a.close(), b.close()])
      await store.close()
    },
  }
}

function reasonOf(outcome: ToolOutcome): unknown {
  return outcome.type === 'result' ? outcome.result['_meta']?.['reason'] : outcome.type
}

test('answers `outcome_unknown` within 5 s after the process of a call died, and never makes the call again', async () => {
  await using world = mortals(hanging)
  void callRuns(world.a, tool, order)
  await settled()
  expect(reasonOf(await callRuns(world.b, tool, order))).toBe('busy')
  await world.advance(5000, { isAlive: false })
  for (let n = 0; n < 3; n++) {
    expect(reasonOf(await callRuns(world.b, tool, order))).toBe('outcome_unknown')
  }
  await world.advance(540_000, { isAlive: false })
  expect(reasonOf(await callRuns(world.b, tool, order))).toBe('outcome_unknown')
  expect(world.source.calls).toHaveLength(1)
})

test('answers `busy` as long as the process of a call is alive', async () => {
  await using world = mortals(hanging)
  void callRuns(world.a, tool, order)
  await settled()
  await world.advance(60_000, { isAlive: true })
  expect(reasonOf(await callRuns(world.b, tool, order))).toBe('busy')
})

test('returns the result of a call whose process was blocked for 8 s, and does not make the call twice', async () => {
  const go = deferred()
  await using world = mortals(async function* () {
    await go.promise
    yield { type: 'done', text: 'Ordered' }
  })
  const first = callRuns(world.a, tool, order)
  await settled()
  await world.advance(8000, { isAlive: false })
  expect(reasonOf(await callRuns(world.b, tool, order))).toBe('outcome_unknown')
  go.resolve()
  await first
  expect(await callRuns(world.b, tool, order)).toEqual(await first)
  expect(world.source.calls).toHaveLength(1)
})

test('returns the result that an earlier version stored', async () => {
  await using world = replicas(done)
  const result = { content: [{ type: 'text', text: 'Ordered before' }] }
  const key = 'idempotent-call:M8UwyAKmB5GYuGgOeyjpcw'
  await world.store.records.put(key, { phase: 'ended', result }, { ttlMs: 60_000 })
  expect(await callRuns(world.a, tool, order)).toEqual({ type: 'result', result })
  expect(world.source.calls).toEqual([])
})
