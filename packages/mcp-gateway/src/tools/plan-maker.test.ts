import { describe, expect, test } from 'vitest'

import { ManualClock } from '../../test/manual-clock.ts'
import { agentOf, FakeSource, worldOf } from '../../test/registry-world.ts'
import type { Values } from '../store/gateway-store.ts'
import { MemoryRecords } from '../store/memory-store.ts'
import type { Agent } from '../agents/agent.ts'

describe('names of tools', () => {
  const twin = (id: string): Agent => agentOf(id, { name: 'twin' })

  test('agree in two processes that met the agents in another order', async () => {
    const values = new MemoryRecords(() => 0)
    const [one, two] = [new FakeSource([twin('b')]), new FakeSource([twin('a')])]
    await using first = worldOf([one], { values })
    await using second = worldOf([two], { values })
    await Promise.all([first.registry.start(), second.registry.start()])
    one.listener?.found(twin('a'))
    two.listener?.found(twin('b'))
    await Promise.all([first.clock.advance(250), second.clock.advance(250)])
    expect(first.tools()).toEqual(second.tools())
    expect(first.registry.plan().version).toBe(second.registry.plan().version)
    expect(first.tools()[0]).toBe('twin')
  })

  test('that collide are told of once', async () => {
    const source = new FakeSource([twin('a'), twin('b')])
    await using world = worldOf([source])
    await world.registry.start()
    source.listener?.found(agentOf('c'))
    await world.clock.advance(250)
    expect(world.warnings).toEqual([
      expect.stringMatching(/^The tool of b\/b is called twin_[0-9a-f]{6}: twin is that of a\/a$/),
    ])
  })

  test('never change when another agent joins, also after a restart', async () => {
    const values = new MemoryRecords(() => 0)
    await using before = worldOf([new FakeSource([twin('b')])], { values })
    await before.registry.start()
    await using after = worldOf([new FakeSource([twin('a'), twin('b')])], { values })
    await after.registry.start()
    expect(after.registry.plan().byName('twin')?.agent.id).toBe('b')
    expect(after.registry.plan().collisions).toMatchObject([{ wanted: 'twin', other: 'a/a' }])
  })

  test('are free a day after their owner was there last, and not before', async () => {
    const clock = new ManualClock()
    const values = new MemoryRecords(() => clock.now())
    const local = (agent: Agent): FakeSource => {
      const source = new FakeSource([agent])
      source.isLocal = true
      return source
    }
    const before = worldOf([local(twin('b'))], { values, clock })
    await before.registry.start()
    await clock.advance(86_400_000 * 2) // renewed meanwhile
    await before.registry.close()

    await using soon = worldOf([local(twin('a'))], { values, clock })
    await soon.registry.start()
    expect(soon.tools()).toEqual([expect.stringMatching(/^twin_[0-9a-f]{6}$/)])
    await soon.registry.close()

    await clock.advance(86_400_001)
    await using later = worldOf([local(twin('a'))], { values, clock })
    await later.registry.start()
    expect(later.tools()).toEqual(['twin'])
  })

  test.each<[string, () => Promise<never>]>([
    ['fails', () => Promise.reject(new Error('away'))],
    ['never answers', () => new Promise(() => undefined)],
  ])('are given all the same while the store %s, and kept when it is back', async (_how, away) => {
    const values = new MemoryRecords(() => 0)
    let isAway = true
    const flaky: Values = {
      get: (key) => (isAway ? away() : values.get(key)),
      put: (key, value, options) => (isAway ? away() : values.put(key, value, options)),
      touch: away,
      take: away,
      delete: away,
      list: away,
      count: away,
    }
    const source = new FakeSource([twin('b')])
    source.isLocal = true
    await using world = worldOf([source], { values: flaky })
    const started = world.registry.start()
    await world.clock.advance(12_000)
    await started
    expect(world.tools()).toEqual(['twin'])
    expect(world.warnings[0]).toContain('could not be kept')
    isAway = false
    await world.clock.advance(11_000)
    source.listener?.found(twin('a'))
    await world.clock.advance(250)
    expect(world.registry.plan().byName('twin')?.agent.id).toBe('b')
    expect(await values.list('tool-names/')).toHaveLength(1)
  })
})
