import { describe, expect, test } from 'vitest'

import { settled } from '../../test/manual-clock.ts'
import {
  agentOf,
  working,
  FakeSource,
  worldOf,
  never,
  callWith,
  runOf,
} from '../../test/registry-world.ts'
import { GatewayError } from '../errors.ts'
import type { AgentUpdate } from './agent-update.ts'
import { RunFailure } from './run-failure.ts'

describe('runs', () => {
  const failing = async function* fail(): AsyncGenerator<AgentUpdate> {
    throw new Error('down')
  }

  test('go on when their agent leaves, and new ones find it gone', async () => {
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

  test('leave an agent alone that failed five times, for 30 s', async () => {
    const source = new FakeSource([agentOf('a')])
    source.script = failing
    source.isLocal = true
    await using world = worldOf([source])
    await world.registry.start()
    for (let failure = 0; failure < 5; failure++) {
      expect(await runOf(world.registry)).toBe('down')
    }
    expect(await runOf(world.registry)).toContain('Try again in 30 s')
    expect(world.registry.agent('a')?.health).toBe('degraded')
    await world.clock.advance(30_000)
    source.script = working
    expect(await runOf(world.registry)).toBe('done')
    expect(world.registry.agent('a')?.health).toBe('healthy')
  })

  test('that their callers gave up say nothing of the agent', async () => {
    const source = new FakeSource([agentOf('a')])
    source.script = failing
    await using world = worldOf([source])
    await world.registry.start()
    for (let time = 0; time < 6; time++) {
      expect(await runOf(world.registry, callWith(AbortSignal.abort()))).toBe('down')
    }
  })

  test('that find no room for the files of their caller leave the agent to all others', async () => {
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

  test('that never end, however often their callers give up, keep no agent from its next chance', async () => {
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

  test('that the gateway ends, because they take too long, are failures', async () => {
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

  test('may say that something is wrong, until one ends well', async () => {
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
