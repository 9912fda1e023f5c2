import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { runsOf, textsOf, waitingForTheEnd } from '../../test/runs-world.ts'
import { principalNamed, tool } from '../../test/scripted-source.ts'
import { RunFailure } from '../agents/agent.ts'
import { LocalEngine, type RunAttempt, type RunEngine } from './engine.ts'
import { newRunId, parseOrder, type RunOrder, type ToolOutcome } from './order.ts'

const order: RunOrder = {
  runId: newRunId(),
  arguments: { message: 'Hi' },
  input: { kind: 'message', text: 'Hi' },
  files: [],
  principal: { ...principalNamed('ada'), scopes: ['run'], claims: { team: 'blue' } },
  scope: undefined,
  sessionScope: 'session',
  address: '192.0.2.1',
  client: { name: 'test', canAsk: true, canVisit: false, knowsChoices: true },
  idempotencyKey: undefined,
  resume: undefined,
  trace: { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' },
}

test('runs an order that was stored as JSON', async () => {
  await using world = runsOf(({ principal, input }) => [
    { type: 'done', text: JSON.stringify([principal, input]) },
  ])
  const stored = new Map([[order.runId, JSON.stringify(order)]])
  const outcome = deferred<ToolOutcome>()
  const engine: RunEngine = new LocalEngine()
  const stop = await engine.work(async (runId, { signal }: RunAttempt) => {
    const read = parseOrder(JSON.parse(stored.get(runId) ?? ''))
    if (read === undefined) throw new Error('the order cannot be read')
    outcome.resolve(await world.runs.call(tool, read, { signal, progress: undefined }))
  })
  await engine.submit(order.runId)
  const [text = ''] = textsOf(await outcome.promise)
  expect(JSON.parse(text)).toEqual([order.principal, { ...order.input, files: [] }])
  expect(world.source.calls).toMatchObject([{ runId: order.runId, trace: order.trace }])
  await stop()
})

test('reads an order as it was stored', () => {
  const answered = { ...order, resume: { state: { run: 'x' }, responses: { i0: { a: 1 } } } }
  for (const one of [order, answered]) {
    expect(parseOrder(JSON.parse(JSON.stringify(one)))).toEqual(one)
  }
})

test.each([
  undefined,
  {},
  { ...order, runId: 'run_1' },
  { ...order, principal: { id: 'ada' } },
  { ...order, files: [1] },
])('reads nothing but an order (%#)', (value) => {
  expect(parseOrder(value)).toBeUndefined()
})

test('cancels one run, and all of them at the end', async () => {
  await using world = runsOf(waitingForTheEnd)
  const reasons = new Map<string, unknown>()
  const engine: RunEngine = new LocalEngine()
  const stop = await engine.work(async (runId, { signal }: RunAttempt) => {
    await world.runs.call(tool, { ...order, runId }, { signal, progress: undefined })
    reasons.set(runId, signal.reason)
  })
  const [one, two] = [newRunId(), newRunId()]
  await engine.submit(one)
  await engine.submit(two)
  await engine.cancel(one)
  await engine.cancel(newRunId())
  await expect.poll(() => [...reasons.keys()]).toEqual([one])
  await stop()
  expect([...reasons.keys()]).toEqual([one, two])
  expect([...reasons.values()].map((reason) => reason instanceof RunFailure)).toEqual([true, true])
  await expect(engine.submit(newRunId())).rejects.toMatchObject({ code: 'CLOSED' })
})
