import { describe, expect, test } from 'vitest'

import { ManualClock, settled } from '../../test/manual-clock.ts'
import type { AgentCall } from '../runs/agent-call.ts'
import type { AgentUpdate } from '../runs/agent-update.ts'
import { RunFailure } from '../runs/run-failure.ts'
import type { Values } from '../store/gateway-store.ts'
import { MemoryValues } from '../store/memory-values.ts'
import type { Agent } from './agent.ts'
import { AgentRegistry } from './agent-registry.ts'
import type { AgentRegistryOptions, PlanChange } from './agent-registry-options.ts'
import type { AgentListener, AgentSource } from './agent-source.ts'

function agentOf(id: string, over: Partial<Agent> = {}): Agent {
  return { id, name: id, description: '', skills: [], health: 'healthy', ...over }
}

async function* working(): AsyncGenerator<AgentUpdate> {
  yield { type: 'done', text: 'ok' }
}

/** A source whose agents come and go when a test says so. */
class FakeSource implements AgentSource {
  readonly name: string
  isLocal = false
  isClosed = false
  listener: AgentListener | undefined
  readonly #first: readonly Agent[]
  readonly #start: () => Promise<void>
  script: (call: AgentCall) => AsyncGenerator<AgentUpdate> = working

  constructor(first: readonly Agent[] = [], start: () => Promise<void> = async () => {}) {
    this.name = 'fake'
    this.#first = first
    this.#start = start
  }

  async start(listener: AgentListener): Promise<void> {
    this.listener = listener
    for (const agent of this.#first) listener.found(agent)
    await this.#start()
  }

  run(call: AgentCall): AsyncGenerator<AgentUpdate> {
    return this.script(call)
  }

  async close(): Promise<void> {
    this.isClosed = true
  }
}

function worldOf(sources: readonly FakeSource[], options: AgentRegistryOptions = {}) {
  const clock = new ManualClock()
  const warnings: string[] = []
  const registry = new AgentRegistry({
    sources,
    clock,
    onWarning: (message) => warnings.push(message),
    ...options,
  })
  const changes: PlanChange[] = []
  registry.on('changed', (change) => changes.push(change))
  return {
    clock,
    registry,
    warnings,
    changes,
    tools: () => registry.plan().tools.map(({ name }) => name),
    [Symbol.asyncDispose]: () => registry.close(),
  }
}

const never = (): Promise<void> => new Promise(() => undefined)

function callWith(signal: AbortSignal = new AbortController().signal): AgentCall {
  return {
    runId: 'run_0',
    agentId: 'a',
    skillId: 'a',
    input: { kind: 'message', text: 'Hi', files: [] },
    principal: { id: 'p', scopes: [], isAnonymous: false, claims: {} },
    signal,
    artifacts: { write: () => Promise.reject(new Error('none')) },
  }
}

async function runOf(registry: AgentRegistry, call: AgentCall = callWith()): Promise<string> {
  const source = registry.sourceOf('a')
  if (source === undefined) return 'gone'
  try {
    for await (const update of source.run(call)) if (update.type === 'done') return 'done'
    return 'ended'
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

describe('agents', () => {
  test('that are there at the start are listed when it is over', async () => {
    await using world = worldOf([new FakeSource([agentOf('b'), agentOf('a')])])
    await world.registry.start()
    expect(world.tools()).toEqual(['a', 'b'])
    expect(world.registry.agents().map(({ id }) => id)).toEqual(['a', 'b'])
  })

  test('that were there at the start can leave', async () => {
    const source = new FakeSource([agentOf('a'), agentOf('b')])
    await using world = worldOf([source])
    await world.registry.start()
    source.listener?.gone('a')
    await world.clock.advance(250)
    expect(world.tools()).toEqual(['b'])
    expect(world.changes.at(-1)).toMatchObject({ tools: true, prompts: false })
  })

  test('join and change later, and are told', async () => {
    const source = new FakeSource()
    await using world = worldOf([source])
    await world.registry.start()
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

  test('expire when nobody has seen them for 60 s, unless they live in this process', async () => {
    const remote = new FakeSource([agentOf('seen'), agentOf('unseen')])
    const local = new FakeSource([agentOf('local')])
    local.isLocal = true
    await using world = worldOf([remote, local])
    await world.registry.start()
    await world.clock.advance(30_000)
    remote.listener?.seen('seen')
    await world.clock.advance(29_999)
    expect(world.tools()).toEqual(['local', 'seen', 'unseen'])
    await world.clock.advance(1 + 250)
    expect(world.tools()).toEqual(['local', 'seen'])
    await world.clock.advance(30_000)
    expect(world.tools()).toEqual(['local'])
  })

  test('that are no agents are refused with a reason, and spoil nothing', async () => {
    const bad = { ...agentOf('x'), skills: 'none' } as unknown as Agent
    await using world = worldOf([new FakeSource([bad, agentOf('a')])])
    await world.registry.start()
    expect(world.tools()).toEqual(['a'])
    expect(world.registry.status().sources).toMatchObject([
      { state: 'started', reason: expect.stringContaining('its skills') },
    ])
  })

  test('with a schema that cannot be used lose that tool only', async () => {
    const inputSchema: Record<string, unknown> = { type: 'object' }
    inputSchema['not'] = inputSchema
    const skills = [
      { id: 'bad', name: 'bad', description: '', inputSchema },
      { id: 'good', name: 'good', description: '' },
    ]
    const source = new FakeSource([agentOf('a', { skills })])
    await using world = worldOf([source], { tools: { parameters: 'schema' } })
    await world.registry.start()
    source.listener?.found(agentOf('a', { skills: [...skills] }))
    await world.clock.advance(250)
    expect(world.tools()).toEqual(['a_good'])
    expect(world.registry.plan().dropped).toMatchObject([{ skillId: 'bad', why: 'schema' }])
  })

  test('with an id that another source has are refused, and cannot remove it', async () => {
    const first = new FakeSource([agentOf('a')])
    const second = new FakeSource([agentOf('a', { name: 'other' })])
    await using world = worldOf([first, second])
    await world.registry.start()
    second.listener?.gone('a')
    await world.clock.advance(250)
    expect(world.tools()).toEqual(['a'])
    expect(world.registry.status().sources[1]?.reason).toContain('already')
  })
})

describe('changes', () => {
  test('of a hundred agents that join together are told once', async () => {
    const source = new FakeSource()
    await using world = worldOf([source])
    await world.registry.start()
    for (let index = 0; index < 100; index++) source.listener?.found(agentOf(`a${index}`))
    await world.clock.advance(1000)
    expect(world.changes).toHaveLength(1)
    expect(world.tools()).toHaveLength(100)
  })

  test('that go on are told after a second, and at the end', async () => {
    const source = new FakeSource()
    await using world = worldOf([source])
    await world.registry.start()
    for (let index = 0; index < 100; index++) {
      source.listener?.found(agentOf(`a${index}`))
      await world.clock.advance(12)
    }
    await world.clock.advance(1000)
    expect(world.changes.map(({ plan }) => plan.tools.length)).toEqual([expect.any(Number), 100])
  })

  test('are not told when there are none', async () => {
    const source = new FakeSource([agentOf('a')])
    await using world = worldOf([source])
    await world.registry.start()
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

  test('reach the others when a listener throws, and nobody after its undo', async () => {
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
  test('that fail stop no other, and say why', async () => {
    const broken = new FakeSource([], () => Promise.reject(new Error('no such file')))
    await using world = worldOf([broken, new FakeSource([agentOf('a')])])
    await world.registry.start()
    expect(world.tools()).toEqual(['a'])
    expect(world.registry.status().sources).toMatchObject([
      { state: 'failed', reason: 'no such file' },
      { state: 'started' },
    ])
  })

  test('that never come to an end hold nobody up for long', async () => {
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

  test('come and go at run time', async () => {
    const late = new FakeSource([agentOf('late')])
    await using world = worldOf([])
    await world.registry.start()
    await world.registry.addSource(late)
    expect(world.tools()).toEqual(['late'])
    await world.registry.removeSource(late)
    expect(world.tools()).toEqual([])
    expect(late.isClosed).toBe(true)
    late.listener?.found(agentOf('late'))
    await world.clock.advance(1000)
    expect(world.tools()).toEqual([])
  })

  test('are closed with the registry, which then does nothing more', async () => {
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

describe('a first list', () => {
  test('waits for agents where that is configured', async () => {
    const source = new FakeSource()
    await using world = worldOf([source], { waitFor: { minAgents: 2 } })
    await world.registry.start()
    let isOver = false
    const waiting = world.registry.whenListable().then(() => (isOver = true))
    source.listener?.found(agentOf('a'))
    await world.clock.advance(5000)
    expect([isOver, world.registry.isListable]).toEqual([false, false])
    source.listener?.found(agentOf('b'))
    await world.clock.advance(250)
    await waiting
    expect(world.tools()).toEqual(['a', 'b'])
    expect(world.registry.isListable).toBe(true)
  })

  test('does not wait until changes come to rest', async () => {
    const source = new FakeSource()
    const waitFor = { pollMs: 50 }
    await using world = worldOf([source], { debounceMs: 2000, waitFor })
    await world.registry.start()
    const waiting = world.registry.whenListable()
    source.listener?.found(agentOf('a'))
    await world.clock.advance(50)
    await waiting
    expect(world.tools()).toEqual(['a'])
  })

  test('does not wait longer than configured', async () => {
    await using world = worldOf([new FakeSource()], { waitFor: { timeoutMs: 5000 } })
    await world.registry.start()
    const waiting = world.registry.whenListable()
    await world.clock.advance(5000)
    await waiting
    expect(world.tools()).toEqual([])
  })
})

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

test('who left is told to those who might have called it', async () => {
  const source = new FakeSource([agentOf('a')])
  await using world = worldOf([source])
  await world.registry.start()
  source.listener?.gone('a')
  await world.clock.advance(250)
  const nobody = { id: 'p', scopes: [], isAnonymous: false, claims: {} }
  expect(world.registry.ownerOf('a', { ...nobody, scopes: ['*'] })).toBe('a')
  expect(world.registry.ownerOf('a', nobody)).toBeUndefined()
  source.listener?.found(agentOf('a'))
  await world.clock.advance(250)
  expect(world.registry.ownerOf('a')).toBeUndefined()
})

describe('names of tools', () => {
  const twin = (id: string): Agent => agentOf(id, { name: 'twin' })

  test('agree in two processes that met the agents in another order', async () => {
    const values = new MemoryValues(() => 0)
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
    const values = new MemoryValues(() => 0)
    await using before = worldOf([new FakeSource([twin('b')])], { values })
    await before.registry.start()
    await using after = worldOf([new FakeSource([twin('a'), twin('b')])], { values })
    await after.registry.start()
    expect(after.registry.plan().byName('twin')?.agent.id).toBe('b')
    expect(after.registry.plan().collisions).toMatchObject([{ wanted: 'twin', other: 'a/a' }])
  })

  test('are free a day after their owner was there last, and not before', async () => {
    const clock = new ManualClock()
    const values = new MemoryValues(() => clock.now())
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
    const values = new MemoryValues(() => 0)
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
