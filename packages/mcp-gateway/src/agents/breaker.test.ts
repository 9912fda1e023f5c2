import { describe, expect, test } from 'vitest'
import { ManualClock, settled } from '../../test/manual-clock.ts'
import {
  agentOf,
  callWith,
  FakeSource,
  never,
  runOf,
  working,
  worldOf,
} from '../../test/registry-world.ts'
import { DEFAULTS } from '../../test/settings.ts'
import { GatewayError } from '../errors.ts'
import { RunFailure } from './agent.ts'
import type { AgentUpdate } from './agent.ts'
import { Breaker } from './breaker.ts'
import type { RunEnd } from './breaker.ts'

function breakerAfter(...ends: readonly RunEnd[]): { breaker: Breaker; clock: ManualClock } {
  const clock = new ManualClock()
  const breaker = new Breaker(clock, DEFAULTS.registry.breaker)
  runs(breaker, 'ada', ends)
  return { breaker, clock }
}

function runs(breaker: Breaker, caller: string, ends: readonly RunEnd[]): void {
  for (const end of ends) {
    breaker.enter(caller)
    breaker.settle(caller, end)
  }
}

const fiveFailures: readonly RunEnd[] = ['failed', 'failed', 'failed', 'failed', 'failed']

test.each<[string, readonly RunEnd[], number]>([
  ['lets a caller in after four failures', fiveFailures.slice(1), 0],
  ['refuses a caller after five failures', fiveFailures, 30_000],
  ['counts failures in a row only', [...fiveFailures.slice(1), 'worked', 'failed'], 0],
  [
    'ignores runs that their caller cancelled',
    Array.from({ length: 9 }, () => 'unknown' as const),
    0,
  ],
])('%s', (_what, ends, waitMs) => {
  const { breaker } = breakerAfter(...ends)
  expect(breaker.enter('ada')).toBe(waitMs)
  expect(breaker.enter('ben')).toBe(0)
})

test('admits one run after 30 s, and closes when it succeeds', async () => {
  const { breaker, clock } = breakerAfter(...fiveFailures)
  await clock.advance(29_999)
  expect(breaker.enter('ada')).toBe(1)
  await clock.advance(1)
  expect(breaker.enter('ada')).toBe(0)
  expect(breaker.enter('ada')).toBeGreaterThan(0)
  breaker.settle('ada', 'worked')
  expect(breaker.isFailing).toBe(false)
  expect(breaker.enter('ada')).toBe(0)
})

test('waits again after a failed trial run, and admits another run after a cancelled one', async () => {
  const { breaker, clock } = breakerAfter(...fiveFailures)
  await clock.advance(30_000)
  runs(breaker, 'ada', ['failed'])
  expect(breaker.enter('ada')).toBe(30_000)
  await clock.advance(30_000)
  runs(breaker, 'ada', ['unknown'])
  expect(breaker.enter('ada')).toBe(0)
})

test('is not kept open by runs that began before it opened', async () => {
  const { breaker, clock } = breakerAfter(...fiveFailures)
  await clock.advance(20_000)
  breaker.settle('ada', 'failed')
  await clock.advance(10_000)
  expect(breaker.enter('ada')).toBe(0)
})

test('refuses all callers after three callers with five failures, and then admits one run of any caller', async () => {
  const { breaker, clock } = breakerAfter(...fiveFailures)
  runs(breaker, 'ben', fiveFailures)
  expect(breaker.enter('dan')).toBe(0)
  breaker.settle('dan', 'unknown')
  runs(breaker, 'cleo', fiveFailures)
  expect(breaker.enter('dan')).toBe(30_000)
  await clock.advance(30_000)
  expect(breaker.enter('dan')).toBe(0)
  expect(breaker.enter('ada')).toBe(30_000)
  breaker.settle('dan', 'failed')
  expect(breaker.enter('ada')).toBe(30_000)
  await clock.advance(30_000)
  runs(breaker, 'dan', ['worked'])
  for (const caller of ['ada', 'ben', 'cleo', 'dan']) expect(breaker.enter(caller)).toBe(0)
})

test('does not refuse all callers while one has a success', () => {
  const { breaker } = breakerAfter(...fiveFailures)
  runs(breaker, 'ben', fiveFailures)
  runs(breaker, 'dan', ['worked'])
  runs(breaker, 'cleo', fiveFailures)
  expect(breaker.enter('dan')).toBe(0)
  expect(breaker.enter('ada')).toBe(30_000)
})

test('counts failures of a limited number of callers', () => {
  const { breaker } = breakerAfter(...fiveFailures)
  for (let n = 0; n < 1000; n++) runs(breaker, `caller ${n}`, ['failed'])
  expect(breaker.enter('ada')).toBe(0)
  expect(breaker.isFailing).toBe(false)
})

describe('runs', () => {
  const failing = async function* fail(): AsyncGenerator<AgentUpdate> {
    throw new Error('down')
  }

  test('continue when their agent leaves, and new runs do not find it', async () => {
    let finish: () => void = () => undefined
    const finished = new Promise<void>((resolve) => (finish = resolve))
    const source = new FakeSource([agentOf('a')])
    source.script = async function* slow() {
      yield { type: 'text', text: 'one moment' }
      await finished
      yield { type: 'done' }
    }
    await using world = worldOf([source])
    await world.registry.start()
    const run = runOf(world.registry)
    await settled()
    source.listener?.gone('a')
    await world.clock.advance(250)
    expect(await runOf(world.registry)).toBe('gone')
    expect(world.registry.ownerOf('a')).toBe('a')
    finish()
    expect(await run).toBe('done')
  })

  test('do not count for another agent that gets the id of their agent', async () => {
    let fail: () => void = () => undefined
    const failed = new Promise<void>((resolve) => (fail = resolve))
    const source = new FakeSource([agentOf('a')])
    source.script = async function* slow() {
      await failed
      yield* failing()
    }
    await using world = worldOf([source], { breaker: { maxFailures: 1 } })
    await world.registry.start()
    const run = runOf(world.registry)
    await settled()
    source.listener?.gone('a')
    source.listener?.found(agentOf('a', { description: 'Another one' }))
    fail()
    expect(await run).toBe('down')
    expect(world.registry.agent('a')?.health).toBe('healthy')
    source.script = working
    expect(await runOf(world.registry)).toBe('done')
  })

  test('that their callers cancelled do not count as failures', async () => {
    const source = new FakeSource([agentOf('a')])
    source.script = failing
    await using world = worldOf([source])
    await world.registry.start()
    for (let time = 0; time < 6; time++) {
      expect(await runOf(world.registry, callWith(AbortSignal.abort()))).toBe('down')
    }
  })

  test('do not count as failures if the caller is over its quota of files', async () => {
    const source = new FakeSource([agentOf('a')])
    source.script = async function* full() {
      throw new GatewayError('QUOTA', 'No room for more files')
    }
    await using world = worldOf([source])
    await world.registry.start()
    for (let time = 0; time < 6; time++) {
      expect(await runOf(world.registry)).toBe('No room for more files')
    }
    source.script = working
    expect(await runOf(world.registry)).toBe('done')
    expect(world.registry.agent('a')?.health).toBe('healthy')
  })

  test('that never end do not block the next run after their callers cancelled', async () => {
    const source = new FakeSource([agentOf('a')])
    source.isLocal = true
    source.script = failing
    await using world = worldOf([source])
    await world.registry.start()
    for (let failure = 0; failure < 5; failure++) await runOf(world.registry)
    await world.clock.advance(30_000)
    source.script = async function* deaf() {
      await never()
      yield { type: 'done' }
    }
    const caller = new AbortController()
    void runOf(world.registry, callWith(caller.signal))
    await settled()
    caller.abort()
    source.script = working
    expect(await runOf(world.registry)).toBe('done')
  })

  test('that exceed a time limit are failures', async () => {
    const source = new FakeSource([agentOf('a')])
    source.script = async function* slow({ signal }) {
      await new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason))
      })
      yield { type: 'done' }
    }
    await using world = worldOf([source])
    await world.registry.start()
    for (let time = 0; time < 5; time++) {
      const limit = new AbortController()
      const run = runOf(world.registry, callWith(limit.signal))
      await settled()
      limit.abort(new RunFailure('timeout', 'It took longer than 1 s.'))
      await run
    }
    expect(await runOf(world.registry)).toContain('Try again in 30 s')
  })

  test('without a result are failures', async () => {
    const source = new FakeSource([agentOf('a')])
    source.script = async function* silent() {}
    await using world = worldOf([source])
    await world.registry.start()
    for (let time = 0; time < 5; time++) {
      expect(await runOf(world.registry)).toBe('ended')
    }
    expect(await runOf(world.registry)).toContain('Try again')
  })

  test('can mark an agent as degraded until one run succeeds', async () => {
    await using world = worldOf([new FakeSource([agentOf('a')])])
    await world.registry.start()
    world.registry.degrade('a', 'it did not stop')
    expect(world.registry.status().agents).toMatchObject([
      { agent: { health: 'degraded' }, reason: 'it did not stop' },
    ])
    await runOf(world.registry)
    expect(world.registry.agent('a')?.health).toBe('healthy')
  })
})
