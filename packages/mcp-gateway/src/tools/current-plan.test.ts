import { describe, expect, test } from 'vitest'

import { agentOf, FakeSource, worldOf } from '../../test/registry-world.ts'
import type { Agent } from '../agents/agent.ts'

describe('names of tools', () => {
  const twin = (id: string): Agent => agentOf(id, { name: 'twin' })

  test('are equal in two processes that found the agents in another order', async () => {
    const [one, two] = [new FakeSource([twin('b')]), new FakeSource([twin('a')])]
    await using first = worldOf([one])
    await using second = worldOf([two])
    await Promise.all([first.registry.start(), second.registry.start()])
    one.listener?.found(twin('a'))
    two.listener?.found(twin('b'))
    await Promise.all([first.clock.advance(250), second.clock.advance(250)])
    expect(first.tools()).toEqual(second.tools())
    expect(first.registry.plan().version).toBe(second.registry.plan().version)
    expect(first.tools()).toHaveLength(2)
  })

  test('cause one warning if they collide', async () => {
    const source = new FakeSource([twin('a'), twin('b')])
    await using world = worldOf([source])
    await world.registry.start()
    source.listener?.found(agentOf('c'))
    await world.clock.advance(250)
    expect(world.warnings).toEqual([
      expect.stringMatching(
        /^The tool of a\/a is called twin_[0-9a-f]{6}, because the name twin is also wanted by b\/b$/,
      ),
      expect.stringMatching(
        /^The tool of b\/b is called twin_[0-9a-f]{6}, because the name twin is also wanted by a\/a$/,
      ),
    ])
  })

  test('never lead to an agent that joined, and return when it left', async () => {
    const source = new FakeSource([twin('b')])
    await using world = worldOf([source])
    await world.registry.start()
    const plan = () => world.registry.plan()
    expect(plan().byName('twin')?.agent.id).toBe('b')
    source.listener?.found(twin('a'))
    await world.clock.advance(250)
    expect(plan().byName('twin')).toBeUndefined()
    const name = plan().bySkill('a', 'a')?.name ?? ''
    expect(world.tools()).toContain(name)
    source.listener?.gone('a')
    await world.clock.advance(250)
    expect(plan().byName('twin')?.agent.id).toBe('b')
    expect(world.registry.ownerOf(name)).toBe('a')
  })
})
