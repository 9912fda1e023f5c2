import { expect, test } from 'vitest'

import { settled } from '../../test/manual-clock.ts'
import { runsOf, metaOf, waitingForTheEnd } from '../../test/runs-world.ts'
import { principalNamed, requestOf, tool } from '../../test/scripted-source.ts'

test('too many runs wait in a queue; one too many is told to come back', async () => {
  await using world = runsOf(waitingForTheEnd, { maxConcurrent: 1, maxQueued: 1 })
  const caller = new AbortController()
  const first = world.runs.call(tool, requestOf('1', { signal: caller.signal }))
  const second = world.runs.call(tool, requestOf('2'))
  await settled()
  expect(await world.runs.call(tool, requestOf('3'))).toMatchObject({
    result: { isError: true, _meta: { reason: 'busy', retryAfterMs: 5000 } },
  })
  caller.abort()
  await first
  await settled()
  expect(world.source.calls).toHaveLength(2)
  await world.runs.close()
  expect(metaOf(await second)).toMatchObject({ reason: 'cancelled' })
})

test('a caller with many runs stops no other', async () => {
  await using world = runsOf(waitingForTheEnd, { maxConcurrentPerPrincipal: 1 })
  const one = requestOf('1', { principal: principalNamed('ada') })
  const all = [world.runs.call(tool, one), world.runs.call(tool, one)]
  all.push(world.runs.call(tool, requestOf('2', { principal: principalNamed('bob') })))
  await settled()
  expect(world.source.calls.map(({ principal }) => principal.id)).toEqual(['ada', 'bob'])
  await world.runs.close()
  await Promise.all(all)
})

test('a call that waits in the queue is heard of all the same', async () => {
  const messages: string[] = []
  await using world = runsOf(waitingForTheEnd, { maxConcurrent: 1, idleTimeoutMs: 0 })
  const first = world.runs.call(tool, requestOf('1'))
  const progress = ({ message }: { readonly message: string }) => void messages.push(message)
  const second = world.runs.call(tool, requestOf('2', { progress }))
  await settled()
  await world.clock.advance(29_999)
  expect(messages).toEqual(['Still working (15 s)'])
  await world.runs.close()
  await Promise.all([first, second])
  await world.clock.advance(60_000)
  expect(messages).toHaveLength(1)
})

test('a call that waited in the queue for too long is told to come back', async () => {
  await using world = runsOf(waitingForTheEnd, { maxConcurrent: 1, idleTimeoutMs: 0 })
  const first = world.runs.call(tool, requestOf('1'))
  const second = world.runs.call(tool, requestOf('2'))
  await settled()
  await world.clock.advance(30_000)
  expect(metaOf(await second)).toMatchObject({ reason: 'busy' })
  await world.runs.close()
  await first
})
