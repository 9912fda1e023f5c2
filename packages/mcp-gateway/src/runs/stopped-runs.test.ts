import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { settled } from '../../test/manual-clock.ts'
import { NO_OWN_FILES, runsOf, textsOf, metaOf, waitingForTheEnd } from '../../test/runs-world.ts'
import { agent, callRuns, requestOf, tool } from '../../test/scripted-source.ts'
import { GatewayError } from '../errors.ts'
import type { ResultFiles } from '../files/result-files.ts'

test('answers `agent_gone` when the agent has left', async () => {
  await using world = runsOf(() => [{ type: 'done' }])
  world.source.isGone = true
  expect(metaOf(await callRuns(world.calls, tool, requestOf('Hi')))).toMatchObject({
    reason: 'agent_gone',
  })
})

test('uses the time limit of the tool', async () => {
  await using world = runsOf(waitingForTheEnd)
  const outcome = callRuns(world.calls, { ...tool, timeoutMs: 500 }, requestOf('Hi'))
  await settled()
  await world.clock.advance(500)
  expect(textsOf(await outcome)[0]).toContain('longer than 500 ms')
})

test('stops the agent at once when the caller cancels', async () => {
  await using world = runsOf(waitingForTheEnd)
  const caller = new AbortController()
  const outcome = callRuns(world.calls, tool, requestOf('Hi', { signal: caller.signal }))
  await settled()
  caller.abort()
  expect(world.source.calls[0]?.signal.aborted).toBe(true)
  expect(metaOf(await outcome)).toMatchObject({ reason: 'cancelled' })
  expect(world.runs.size).toBe(0)
})

test('waits for runs when the gateway stops, and then ends them', async () => {
  await using world = runsOf(waitingForTheEnd)
  const outcome = callRuns(world.calls, tool, requestOf('Hi'))
  await settled()
  const closed = world.calls.close(10_000)
  await world.clock.advance(9999)
  expect(world.runs.size).toBe(1)
  await world.clock.advance(1)
  await closed
  expect(metaOf(await outcome)).toMatchObject({ reason: 'cancelled' })
  expect(metaOf(await callRuns(world.calls, tool, requestOf('Hi')))).toMatchObject({
    reason: 'cancelled',
  })
})

test('abandons an agent that does not stop within 2 s, and marks it as degraded', async () => {
  const never = deferred()
  await using world = runsOf(async function* () {
    await never.promise
    yield { type: 'done' }
  })
  const caller = new AbortController()
  const outcome = callRuns(world.calls, tool, requestOf('Hi', { signal: caller.signal }))
  await settled()
  caller.abort()
  await world.clock.advance(1999)
  expect(world.runs.size).toBe(1)
  await world.clock.advance(1)
  expect(metaOf(await outcome)).toMatchObject({ reason: 'cancelled' })
  expect(world.runs.size).toBe(0)
  expect(world.source.degraded).toEqual([agent.id])
  expect(world.events.filter(({ type }) => type === 'orphaned')).toHaveLength(1)
  never.resolve()
})

test.each([
  ['after it was stopped', 'cancelled', 'question'],
  ['just before it is stopped', 'cancelled', 'files'],
  ['in a run whose files cannot be read', 'unavailable', 'nothing'],
])('drops a question that an agent asks %s', async (_, reason, stopsAt) => {
  const caller = new AbortController()
  const soFar = async () => {
    if (stopsAt !== 'files') throw new GatewayError('UNAVAILABLE', 'The store is down')
    caller.abort()
    return { blocks: [], shown: [] }
  }
  const unused = (): Promise<never> => Promise.reject(new Error('unused'))
  const files: ResultFiles = {
    input: async () => [],
    open: () => ({ ...NO_OWN_FILES, write: unused, blocks: unused, soFar }),
  }
  await using world = runsOf(
    async function* () {
      if (stopsAt === 'question') caller.abort()
      yield { type: 'asked', questions: [{ id: 'q', message: 'Size?' }], state: { thread: 't1' } }
    },
    { files },
  )
  const request = requestOf('Hi', { signal: caller.signal })
  expect(metaOf(await callRuns(world.calls, tool, request))).toMatchObject({ reason })
  expect(world.source.forgotten).toEqual([{ thread: 't1' }])
})
