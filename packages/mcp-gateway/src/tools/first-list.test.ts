import { describe, expect, test } from 'vitest'

import { settled } from '../../test/manual-clock.ts'
import { agentOf, FakeSource, never, worldOf } from '../../test/registry-world.ts'

describe('without a wish to wait, a first list', () => {
  test('waits for graphs of this process until they are loaded', async () => {
    let load: () => void = () => undefined
    const loaded = new Promise<void>((resolve) => (load = resolve))
    const graphs = new FakeSource([agentOf('graph')], () => loaded)
    graphs.isLocal = true
    await using world = worldOf([graphs, new FakeSource([agentOf('a')])])
    void world.registry.start()
    await world.clock.advance(3000)
    expect(world.registry.isListable).toBe(false)
    load()
    await world.registry.whenListable()
    expect(world.tools()).toEqual(['a', 'graph'])
  })

  test('but not for those that never are', async () => {
    const graphs = new FakeSource([], never)
    graphs.isLocal = true
    await using world = worldOf([graphs, new FakeSource([agentOf('a')])])
    void world.registry.start()
    await world.clock.advance(10_000)
    await settled()
    expect(world.registry.isListable).toBe(true)
    expect(world.tools()).toEqual(['a'])
  })

  test('waits no longer than a change for what is elsewhere', async () => {
    await using world = worldOf([new FakeSource([], never)])
    void world.registry.start()
    await world.clock.advance(1000)
    await world.registry.whenListable()
    expect(world.tools()).toEqual([])
  })
})
