import { setImmediate } from 'node:timers/promises'
import {
  Annotation,
  Command,
  interrupt,
  MemorySaver,
  Send,
  START,
  StateGraph,
} from '@langchain/langgraph'
import { startRecordingProxy, startLegacyServer } from '@x/mcp-testing'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { currentRun, runIdOf, McpClient, runInSessionScope } from '../src/index.ts'
import type { McpClientOptions } from '../src/index.ts'
import { ScopedFactory } from './session-stores.ts'
import { is, rejectionOf } from './setting.ts'

const State = Annotation.Root({
  counts: Annotation<unknown[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
})
type Update = typeof State.Update

/** Clients whose sessions belong to runs, one for each server. */
class Clients implements AsyncDisposable {
  readonly #options: McpClientOptions
  readonly #byUrl = new Map<string, McpClient>()

  constructor(options: McpClientOptions) {
    this.#options = options
  }

  of(url: string): McpClient {
    const client =
      this.#byUrl.get(url) ?? new McpClient({ url }, { scope: 'run', ...this.#options })
    this.#byUrl.set(url, client)
    return client
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(Array.from(this.#byUrl.values(), (client) => client.dispose()))
  }
}

/** Two servers behind proxies. `wire`: the sessions that were opened and terminated on them, in order. */
async function startWorld() {
  const shop = await startLegacyServer()
  const bank = await startLegacyServer()
  const proxies = {
    shop: await startRecordingProxy(shop.url),
    bank: await startRecordingProxy(bank.url),
  }
  const wire: string[] = []
  for (const name of ['shop', 'bank'] as const) {
    proxies[name].on(({ type, exchange }) => {
      if (type === 'started' && is.initialize(exchange)) wire.push(`open ${name}`)
      if (type !== 'answered' && is.delete(exchange)) wire.push(`${type} to end ${name}`)
    })
  }
  const clients = new Clients({ era: 'legacy' })
  const url = (name: 'shop' | 'bank'): string => proxies[name].url
  return {
    shop,
    bank,
    wire,
    clients,
    url,
    /** Adds one to the counter of the session. */
    async add(name: 'shop' | 'bank', by: Clients = clients): Promise<Update> {
      const { structuredContent } = await by.of(url(name)).callTool('counter_add')
      return { counts: [`${name} ${String(structuredContent?.['count'])}`] }
    },
    /** Number of open sessions. */
    get live() {
      return shop.sessions.length + bank.sessions.length
    },
    async [Symbol.asyncDispose]() {
      await clients[Symbol.asyncDispose]()
      for (const one of [...Object.values(proxies), shop, bank]) await one[Symbol.asyncDispose]()
    },
  }
}

let world: Awaited<ReturnType<typeof startWorld>>
beforeEach(async () => {
  world = await startWorld()
})
afterEach(async () => {
  await world[Symbol.asyncDispose]()
})

/** Sessions are opened in this order and terminated in reverse order, one after the other. */
const SHOP_THEN_BANK = [
  'open shop',
  'open bank',
  'started to end bank',
  'ended to end bank',
  'started to end shop',
  'ended to end shop',
]

const shopNode = (): Promise<Update> => world.add('shop')
const bankNode = (): Promise<Update> => world.add('bank')

function shopThenBank() {
  return new StateGraph(State)
    .addNode('a', shopNode)
    .addNode('b', bankNode)
    .addNode('c', shopNode)
    .addEdge(START, 'a')
    .addEdge('a', 'b')
    .addEdge('b', 'c')
    .compile()
}

describe('invoke()', () => {
  test('shares the sessions of the run among nodes, and terminates them newest first', async () => {
    const { counts } = await runInSessionScope(() => shopThenBank().invoke({}))
    expect(counts).toEqual(['shop 1', 'bank 1', 'shop 2'])
    expect(world.wire).toEqual(SHOP_THEN_BANK)
  })

  test('shares the sessions with parallel nodes and with `Send`', async () => {
    const graph = new StateGraph(State)
      .addNode('fan', async () => ({}))
      .addNode('work', shopNode)
      .addNode('left', shopNode)
      .addNode('right', shopNode)
      .addEdge(START, 'left')
      .addEdge(START, 'right')
      .addEdge(START, 'fan')
      .addConditionalEdges('fan', () => Array.from({ length: 5 }, () => new Send('work', {})))
      .compile()
    const { counts } = await runInSessionScope(() => graph.invoke({}))
    expect(new Set(counts)).toEqual(new Set([1, 2, 3, 4, 5, 6, 7].map((n) => `shop ${n}`)))
    expect(world.wire).toEqual(['open shop', 'started to end shop', 'ended to end shop'])
  })

  test('joins the run in a sub-graph as a node, in one that a node invokes, and in a sub-agent', async () => {
    const runs = new Set<string | undefined>()
    const sub = new StateGraph(State)
      .addNode('inner', () => {
        runs.add(currentRun()?.id)
        return shopNode()
      })
      .addEdge(START, 'inner')
      .compile()
    const subAgent = (): Promise<Update> => runInSessionScope(() => sub.invoke({}))
    const graph = new StateGraph(State)
      .addNode('a', sub)
      .addNode('b', () => sub.invoke({}))
      .addNode('c', subAgent)
      .addNode('d', async () => {
        expect(world.live).toBe(1) // the sub-agent has closed nothing
        return shopNode()
      })
      .addEdge(START, 'a')
      .addEdge('a', 'b')
      .addEdge('b', 'c')
      .addEdge('c', 'd')
      .compile()
    const { counts } = await runInSessionScope(() => graph.invoke({}))
    expect(counts).toEqual(['shop 1', 'shop 2', 'shop 3', 'shop 4'])
    expect(runs.size).toBe(1)
    expect(world.wire).toEqual(['open shop', 'started to end shop', 'ended to end shop'])
  })

  test('terminates the sessions before the error of a node fails the run', async () => {
    const graph = new StateGraph(State)
      .addNode('a', shopNode)
      .addNode('b', async () => {
        await bankNode()
        throw new Error('the node failed')
      })
      .addEdge(START, 'a')
      .addEdge('a', 'b')
      .compile()
    await expect(runInSessionScope(() => graph.invoke({}))).rejects.toThrow('the node failed')
    expect(world.wire).toEqual(SHOP_THEN_BANK)
  })
})

describe('stream()', () => {
  test('keeps the sessions until the stream has been read to its end', async () => {
    const counts: unknown[] = []
    const stream = await runInSessionScope(() =>
      shopThenBank().stream({}, { streamMode: 'updates' }),
    )
    for await (const chunk of stream) {
      expect(currentRun()).toBeUndefined()
      counts.push(...Object.values(chunk).flatMap((update) => update?.counts ?? []))
    }
    expect(counts).toEqual(['shop 1', 'bank 1', 'shop 2'])
    expect(world.wire).toEqual(SHOP_THEN_BANK)
  })

  test('aborts the graph and closes everything when the stream is left by break', async () => {
    const seen: unknown[] = []
    const graph = new StateGraph(State)
      .addNode('a', shopNode)
      .addNode('b', async (_state, { signal }) => {
        const slow = world.clients.of(world.url('shop')).callTool('slow', {}, { signal })
        seen.push(await rejectionOf(slow), signal?.aborted)
        return {}
      })
      .addNode('c', bankNode)
      .addEdge(START, 'a')
      .addEdge('a', 'b')
      .addEdge('b', 'c')
      .compile()
    for await (const _ of await runInSessionScope(() =>
      graph.stream({}, { streamMode: 'updates' }),
    )) {
      await world.shop.waitFor(is.tool('slow'))
      break
    }
    while (seen.length === 0) await setImmediate()
    expect(seen[1]).toBe(true)
    expect(world.wire).toEqual(['open shop', 'started to end shop', 'ended to end shop'])
    expect(world.bank.received).toEqual([]) // the rest of the graph did not run after the end of its run
  })

  test('handles streamEvents(), read to its end and left half-way', async () => {
    const events = (): AsyncIterable<{ readonly event: string }> =>
      runInSessionScope(() => shopThenBank().streamEvents({}, { version: 'v2' }))
    const names = new Set<string>()
    for await (const { event } of events()) names.add(event)
    expect(names).toContain('on_chain_end')
    expect(world.wire).toEqual(SHOP_THEN_BANK)
    for await (const { event } of events()) if (event === 'on_chain_stream') break
    expect(world.live).toBe(0)
    expect(currentRun()).toBeUndefined()
  })
})

describe('a graph that stops at an interrupt', () => {
  const checkpointer = new MemorySaver()

  /** Interrupts before it continues. `where` says which part interrupts. */
  const asking = (clients: Clients, where: 'node' | 'sub-graph') => {
    const ask = (): Update => ({ counts: [interrupt('Really?')] })
    const sub = new StateGraph(State).addNode('ask', ask).addEdge(START, 'ask').compile()
    return new StateGraph(State)
      .addNode('a', () => world.add('shop', clients))
      .addNode('b', () => world.add('bank', clients))
      .addNode('ask', where === 'node' ? async () => ask() : async () => sub.invoke({}))
      .addNode('c', () => world.add('shop', clients))
      .addEdge(START, 'a')
      .addEdge('a', 'b')
      .addEdge('b', 'ask')
      .addEdge('ask', 'c')
      .compile({ checkpointer })
  }
  type Graph = ReturnType<typeof asking>
  type Config = Parameters<Graph['invoke']>[1] & { readonly configurable: { thread_id: string } }
  type Run = (graph: Graph, config: Config) => unknown

  const drained = async (stream: AsyncIterable<unknown>): Promise<void> => {
    for await (const _ of stream) expect(world.live).toBeLessThanOrEqual(2)
  }
  const stops: readonly (readonly [string, 'node' | 'sub-graph', Run])[] = [
    ['invoke()', 'node', (graph, config) => graph.invoke({}, config)],
    ['invoke(), in a sub-graph', 'sub-graph', (graph, config) => graph.invoke({}, config)],
    [
      'stream() of updates',
      'node',
      (graph, config) => graph.stream({}, { ...config, streamMode: 'updates' }),
    ],
    [
      'stream() of values',
      'sub-graph',
      (graph, config) => graph.stream({}, { ...config, streamMode: 'values' }),
    ],
    [
      'stream() of two modes and sub-graphs',
      'sub-graph',
      (graph, config) =>
        graph.stream({}, { ...config, streamMode: ['messages', 'updates'], subgraphs: true }),
    ],
    [
      'streamEvents()',
      'node',
      (graph, config) => graph.streamEvents({}, { ...config, version: 'v2' }),
    ],
    [
      'a breakpoint',
      'node',
      (graph, config) => graph.invoke({}, { ...config, interruptBefore: ['ask'] }),
    ],
    [
      'a stream that does not tell, with a word of its own',
      'node',
      async function* (graph: Graph, config: Config): AsyncGenerator {
        yield* await graph.stream({}, { ...config, streamMode: 'custom' })
        if ((await graph.getState(config)).next.length > 0) currentRun()?.detach()
      },
    ],
  ]

  test.each(stops)(
    '%s: terminates nothing, and a new run continues with the sessions',
    async (what, where, start) => {
      const sessionInfoFactory = new ScopedFactory()
      const thread_id = what
      const config = { configurable: { thread_id } }
      const id = runIdOf(thread_id)
      {
        await using clients = new Clients({ era: 'legacy', sessionInfoFactory })
        const outcome = await runInSessionScope(() => start(asking(clients, where), config), { id })
        if (isStream(outcome)) await drained(outcome)
      }
      expect(world.wire).toEqual(['open shop', 'open bank'])
      expect(world.live).toBe(2)
      for (const info of sessionInfoFactory.kept.values()) {
        expect(await info.getRecord()).toBeDefined()
      }

      await using clients = new Clients({ era: 'legacy', sessionInfoFactory })
      const resume = (): Promise<typeof State.State> =>
        asking(clients, where).invoke(new Command({ resume: 'yes' }), config)
      const { counts } = await runInSessionScope(
        async () => {
          const state = await resume()
          // A breakpoint comes before the interrupt.
          return '__interrupt__' in state ? resume() : state
        },
        { id },
      )
      expect(counts).toEqual(['shop 1', 'bank 1', 'yes', 'shop 2'])
      expect(world.wire.slice(2)).toEqual(['started to end shop', 'ended to end shop'])
      expect([world.shop.count('initialize'), world.shop.sessions.length]).toEqual([1, 0])
    },
  )

  test('is detached by the error of an interrupt if the run is a part of a graph', async () => {
    const graph = new StateGraph(State)
      .addNode('agent', () =>
        // This graph is not in a run. Its node is the root of one.
        runInSessionScope(
          async () => {
            await shopNode()
            return { counts: [interrupt('Really?')] }
          },
          { id: runIdOf('part') },
        ),
      )
      .addEdge(START, 'agent')
      .compile({ checkpointer })
    await graph.invoke({}, { configurable: { thread_id: 'part' } })
    expect(world.wire).toEqual(['open shop'])
    expect(world.live).toBe(1)
  })

  test('ends the run if the interrupt is answered within it', async () => {
    const graph = asking(world.clients, 'node')
    const config = { configurable: { thread_id: 'loop' } }
    await runInSessionScope(async () => {
      await graph.invoke({}, config)
      return graph.invoke(new Command({ resume: 'yes' }), config)
    })
    expect(world.wire).toEqual(SHOP_THEN_BANK)
  })
})

function isStream(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value
}
