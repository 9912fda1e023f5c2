import { describe, expect, test } from 'vitest'
import { settled } from '../../test/manual-clock.ts'
import { agentOf, FakeSource, never, startedWorld, worldOf } from '../../test/registry-world.ts'
import type { RegistryWorld } from '../../test/registry-world.ts'
import type { Agent } from '../agents/agent.ts'

describe('agents', () => {
  test('can leave after the start', async () => {
    const source = new FakeSource([agentOf('a'), agentOf('b')])
    await using world = await startedWorld([source])
    source.listener?.gone('a')
    await world.clock.advance(250)
    expect(world.tools()).toEqual(['b'])
    expect(world.changes.at(-1)).toMatchObject({ tools: true, prompts: false })
  })

  test('that join or change later cause a notification', async () => {
    const source = new FakeSource()
    await using world = await startedWorld([source])
    source.listener?.found(agentOf('a'))
    await world.clock.advance(250)
    expect(world.changes.map(({ plan }) => plan.tools.length)).toEqual([1])
    const skill = { id: 'get', name: 'get', description: '', examples: ['Get it'] }
    source.listener?.found(agentOf('a', { skills: [skill] }))
    await world.clock.advance(250)
    expect(world.tools()).toEqual(['a_get'])
    expect(world.changes).toHaveLength(2)
    expect(world.changes[1]).toMatchObject({ tools: true, prompts: true })
  })

  test('expire 60 s after the last report, unless they run in this process', async () => {
    const remote = new FakeSource([agentOf('seen'), agentOf('unseen')])
    const local = new FakeSource([agentOf('local')])
    local.isLocal = true
    await using world = await startedWorld([remote, local])
    await world.clock.advance(30_000)
    remote.listener?.seen('seen')
    await world.clock.advance(29_999)
    expect(world.tools()).toEqual(['local', 'seen', 'unseen'])
    await world.clock.advance(1 + 250)
    expect(world.tools()).toEqual(['local', 'seen'])
    await world.clock.advance(30_000)
    expect(world.tools()).toEqual(['local'])
  })

  test('that cannot be reached are degraded until they are seen again, or expire', async () => {
    const source = new FakeSource([agentOf('a'), agentOf('b')])
    await using world = worldOf([source])
    const healthOf = (): unknown => {
      return world.registry.plan().tools.map(({ definition: { _meta: meta } }) => meta?.['status'])
    }
    await world.registry.start()
    const version = world.registry.plan().toolsVersion
    source.listener?.unreachable('a', 'No card')
    await world.clock.advance(250)
    expect(healthOf()).toEqual(['degraded', 'healthy'])
    const status = world.registry.status()
    expect(status.agents[0]).toMatchObject({ reason: 'No card' })
    expect(JSON.parse(JSON.stringify(status))).toEqual(status)
    source.listener?.seen('a')
    await world.clock.advance(250)
    expect(healthOf()).toEqual(['healthy', 'healthy'])
    source.listener?.unreachable('b', 'No card')
    source.listener?.found(agentOf('b'))
    await world.clock.advance(250)
    expect(healthOf()).toEqual(['healthy', 'healthy'])
    expect([world.registry.plan().toolsVersion, world.changes.length]).toEqual([version, 1])
    await world.clock.advance(40_000)
    source.listener?.unreachable('a', 'No card')
    await world.clock.advance(40_000)
    expect(world.tools()).toEqual([])
  })

  test('with a wrong shape are refused with a reason, and the others stay', async () => {
    const bad = { ...agentOf('x'), skills: 'none' } as unknown as Agent
    await using world = await startedWorld([new FakeSource([bad, agentOf('a')])])
    expect(world.tools()).toEqual(['a'])
    expect(world.registry.status().sources).toMatchObject([
      { state: 'started', reason: expect.stringContaining('its skills') },
    ])
  })

  test('are found while their source writes warnings to the log of the gateway', async () => {
    const source = new FakeSource([agentOf('a')])
    await using world = await startedWorld([source])
    source.listener?.warned('A thread could not be deleted')
    expect(world.warnings).toEqual(['A thread could not be deleted'])
    expect(world.tools()).toEqual(['a'])
  })

  test('with a schema that cannot be used lose that tool only', async () => {
    const inputSchema: Record<string, unknown> = { type: 'object' }
    inputSchema['not'] = inputSchema
    const skills = [
      { id: 'bad', name: 'bad', description: '', inputSchema },
      { id: 'good', name: 'good', description: '' },
    ]
    const source = new FakeSource([agentOf('a', { skills })])
    await using world = await startedWorld([source], { tools: { parameters: 'schema' } })
    source.listener?.found(agentOf('a', { skills: [...skills] }))
    await world.clock.advance(250)
    expect(world.tools()).toEqual(['a_good'])
    expect(world.registry.plan().dropped).toMatchObject([{ skillId: 'bad', why: 'schema' }])
  })

  test('with the id of another source are refused, and cannot remove its agent', async () => {
    const first = new FakeSource([agentOf('a')])
    const second = new FakeSource([agentOf('a', { name: 'other' })])
    await using world = await startedWorld([first, second])
    second.listener?.gone('a')
    await world.clock.advance(250)
    expect(world.tools()).toEqual(['a'])
    expect(world.registry.status().sources[1]?.reason).toContain('already')
  })
})

describe('changes', () => {
  test('that continue cause a notification after a second, and at the end', async () => {
    const source = new FakeSource()
    await using world = await startedWorld([source])
    for (let index = 0; index < 100; index++) {
      source.listener?.found(agentOf(`a${index}`))
      await world.clock.advance(12)
    }
    await world.clock.advance(1000)
    expect(world.changes.map(({ plan }) => plan.tools.length)).toEqual([expect.any(Number), 100])
  })

  test('without effect on the lists cause no notification', async () => {
    const source = new FakeSource([agentOf('a')])
    await using world = await startedWorld([source])
    const before = world.changes.length
    source.listener?.found(agentOf('a'))
    source.listener?.found(agentOf('b'))
    source.listener?.gone('b')
    source.listener?.gone('nobody')
    source.listener?.found(agentOf('a', { health: 'degraded' }))
    await world.clock.advance(1000)
    expect(world.changes).toHaveLength(before)
    // Health is there for whoever looks.
    expect(world.registry.plan().tools[0]?.definition).toMatchObject({
      _meta: { status: 'degraded' },
    })
  })

  test('reach the other listeners if one throws, and no listener that was removed', async () => {
    const source = new FakeSource()
    await using world = worldOf([source])
    const heard: string[] = []
    world.registry.on('changed', () => {
      throw new Error('oh')
    })
    const undo = world.registry.on('changed', () => heard.push('undone'))
    world.registry.on('changed', () => heard.push('last'))
    undo()
    await world.registry.start()
    source.listener?.found(agentOf('a'))
    await world.clock.advance(250)
    expect(heard).toEqual(['last'])
    expect(world.warnings).toEqual(['A listener of changes failed'])
  })
})

describe('sources', () => {
  test('that fail do not stop others, and have a reason', async () => {
    const broken = new FakeSource([], () => Promise.reject(new Error('no such file')))
    await using world = await startedWorld([broken, new FakeSource([agentOf('a')])])
    expect(world.tools()).toEqual(['a'])
    expect(world.registry.status().sources).toMatchObject([
      { state: 'failed', reason: 'no such file' },
      { state: 'started' },
    ])
  })

  test('that never finish delay the start for a limited time', async () => {
    const slow = new FakeSource([agentOf('slow')], never)
    await using world = worldOf([slow, new FakeSource([agentOf('a')])])
    const started = world.registry.start()
    const listable = world.registry.whenListable()
    await world.clock.advance(1000)
    await listable
    expect(world.tools()).toEqual(['a', 'slow'])
    await world.clock.advance(30_000)
    await started
  })

  test('can be added and removed at run time', async () => {
    const late = new FakeSource([agentOf('late')])
    await using world = await startedWorld([])
    await world.registry.addSource(late)
    expect(world.tools()).toEqual(['late'])
    await world.registry.removeSource(late)
    expect(world.tools()).toEqual([])
    expect(late.isClosed).toBe(true)
    late.listener?.found(agentOf('late'))
    await world.clock.advance(1000)
    expect(world.tools()).toEqual([])
  })

  test('are closed with the registry, which then calls no listener', async () => {
    const source = new FakeSource([agentOf('a')])
    const world = worldOf([source])
    await world.registry.start()
    source.listener?.found(agentOf('b'))
    await Promise.all([world.registry.close(), world.registry.close()])
    source.listener?.found(agentOf('c'))
    expect(source.isClosed).toBe(true)
    expect(world.clock.pending).toBe(0)
    expect(world.tools()).toEqual(['a'])
    await world.registry.whenListable()
  })
})

describe('a client that reads the list once', () => {
  async function isOverAfter(waiting: Promise<void>, world: RegistryWorld, ms: number) {
    let isOver = false
    void waiting.then(() => (isOver = true))
    await world.clock.advance(ms)
    return isOver
  }

  test('waits for the first agent, also if the first searches found none', async () => {
    const source = new FakeSource()
    await using world = await startedWorld([source])
    await world.registry.whenListable()
    const waiting = world.registry.whenPopulated()
    expect(await isOverAfter(waiting, world, 1000)).toBe(false)
    source.listener?.found(agentOf('a'))
    expect(await isOverAfter(waiting, world, 250)).toBe(true)
    expect(world.tools()).toEqual(['a'])
  })

  test('waits 5 s, and not at all without sources or after the close', async () => {
    await using world = await startedWorld([new FakeSource()])
    const waiting = world.registry.whenPopulated()
    expect(await isOverAfter(waiting, world, 4999)).toBe(false)
    expect(await isOverAfter(waiting, world, 1)).toBe(true)
    await using empty = await startedWorld([])
    await empty.registry.whenPopulated()
    await using closed = worldOf([new FakeSource()])
    const given = closed.registry.whenPopulated()
    await closed.registry.close()
    await given
    expect(closed.clock.pending).toBe(0)
  })
})

describe('a first list', () => {
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

  test('waits for a limited time for graphs that never load', async () => {
    const graphs = new FakeSource([], never)
    graphs.isLocal = true
    await using world = worldOf([graphs, new FakeSource([agentOf('a')])])
    void world.registry.start()
    await world.clock.advance(10_000)
    await settled()
    expect(world.registry.isListable).toBe(true)
    expect(world.tools()).toEqual(['a'])
  })

  test('waits a short time for agents of other processes', async () => {
    await using world = worldOf([new FakeSource([], never)])
    void world.registry.start()
    await world.clock.advance(1000)
    await world.registry.whenListable()
    expect(world.tools()).toEqual([])
  })
})

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
    expect(first.registry.plan().toolsVersion).toBe(second.registry.plan().toolsVersion)
    expect(first.tools()).toHaveLength(2)
  })

  test('cause one warning if they collide', async () => {
    const source = new FakeSource([twin('a'), twin('b')])
    await using world = await startedWorld([source])
    source.listener?.found(agentOf('c'))
    await world.clock.advance(250)
    expect(world.warnings).toEqual([
      expect.stringMatching(
        /^Tools with equal names: a\/a is called twin_[0-9a-f]{6}, because b\/b wants the name twin too; b\/b is called twin_[0-9a-f]{6}, because a\/a wants the name twin too\. To choose a name, set "tools\.overrides\["a\/a"\]\.name"/,
      ),
    ])
  })

  test('cause one warning with three examples if many collide, and one more for those that join', async () => {
    const source = new FakeSource(Array.from({ length: 30 }, (_, index) => twin(`a${index}`)))
    await using world = await startedWorld([source])
    expect(world.warnings).toEqual([expect.stringContaining('; and 27 more. To choose a name')])
    source.listener?.found(twin('b'))
    await world.clock.advance(250)
    expect(world.warnings.slice(1)).toEqual([
      expect.stringMatching(
        /^Tools with equal names: b\/b is called \w+, because a0\/a0 and .*"\]\.name"/,
      ),
    ])
  })

  test('never lead to an agent that joined, and return when it left', async () => {
    const source = new FakeSource([twin('b')])
    await using world = await startedWorld([source])
    const plan = () => world.registry.plan()
    expect(plan().byName('twin')?.agent.id).toBe('b')
    source.listener?.found(twin('a'))
    await world.clock.advance(250)
    expect(plan().byName('twin')).toBeUndefined()
    const name = plan().tools.find(({ agent }) => agent.id === 'a')?.name ?? ''
    expect(world.tools()).toContain(name)
    source.listener?.gone('a')
    await world.clock.advance(250)
    expect(plan().byName('twin')?.agent.id).toBe('b')
  })
})
