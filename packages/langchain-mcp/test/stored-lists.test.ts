// The list of tools that one process stores, and the next one uses.
import { StaticServerDirectory } from '@x/mcp-client'
import { isRecord } from '@x/internal'
import { deferred, startLegacyServer, startModernServer, type TestTool } from '@x/mcp-testing'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createMcpToolsFromAgent, type ToolsChanged } from '../src/index.ts'
import {
  isRpc,
  requestsIn,
  startAgentWorld,
  type AgentProcess,
  type AgentWorld,
  type ToolsOptions,
} from './agent-world.ts'
import { namesOf, toolOf } from './listed-tools.ts'

const MINUTE = 60_000

function keptIn({ kept }: AgentWorld, options: ToolsOptions = {}): ToolsOptions {
  return { session: 'thread', sessionInfoFactory: kept, elicitation: false, ...options }
}

/** A tool with one required parameter. */
function toolWith(name: string, parameter: string, more: Partial<TestTool> = {}): TestTool {
  const properties = { [parameter]: { type: 'string' } }
  const inputSchema = { type: 'object', properties, required: [parameter] }
  return { name, inputSchema, run: (args) => `${name}: ${String(args[parameter])}`, ...more }
}

const look = toolWith('look', 'at')

/** Changes the stored list. Returns how many there were. */
function changeStoredLists(
  { kept: { items } }: AgentWorld,
  change: (list: Record<string, unknown>) => unknown,
): number {
  let count = 0
  for (const [key, text] of items) {
    const record: unknown = JSON.parse(text)
    if (!isRecord(record) || !isRecord(record['tools'])) continue
    count++
    items.set(key, JSON.stringify({ ...record, tools: change(record['tools']) }))
  }
  return count
}

/** Makes the stored lists older. */
function age(world: AgentWorld, ms: number): number {
  return changeStoredLists(world, (list) => {
    const readAt = new Date(Date.parse(String(list['readAt'])) - ms).toISOString()
    return { ...list, readAt }
  })
}

/** Names of the tools in the stored lists. */
function storedNames(world: AgentWorld): unknown[] {
  const names: unknown[] = []
  changeStoredLists(world, (list) => {
    const tools: unknown = list['tools']
    if (Array.isArray(tools)) names.push(...tools.map((tool: { name: unknown }) => tool.name))
    return list
  })
  return names
}

/** Resolves with the next change of a list that a process sees. */
function changeIn({ mcp }: AgentProcess): Promise<ToolsChanged> {
  return new Promise((resolve) => {
    const remove = mcp.on('toolsChanged', (change) => {
      remove()
      resolve(change)
    })
  })
}

describe('a tool that has changed since', () => {
  test('is called once with its stored definition, and the next call tells the model what changed', async () => {
    await using server = await startLegacyServer({
      tools: [toolWith('pay', 'amount'), toolWith('look', 'at'), toolWith('drop', 'item')],
    })
    const world = await startAgentWorld(server.url)
    await (await world.start(keptIn(world))).say('call look {"at":"a"}')
    server.tools = [toolWith('pay', 'cents'), toolWith('look', 'at', { description: 'Looks.' })]
    expect(age(world, 10 * MINUTE)).toBe(1)

    const next = await world.start(keptIn(world))
    const changed = changeIn(next)
    const mark = world.proxy.mark()
    expect(await next.say('call pay {"amount":"1"}')).toBe('pay: undefined') // the server decides
    expect(await changed).toMatchObject({ removed: ['drop'], changed: ['pay', 'look'] })
    // The list was read in the session of the thread.
    expect(requestsIn(mark)).toEqual(['tools/call', 'GET', 'tools/list'])

    expect(await next.say('call drop {"item":"a"}')).toMatch(/no longer offered.*not executed/)
    expect(await next.say('call pay {"amount":"1"}')).toMatch(/not executed.*are now: cents/)
    expect(await next.say('call pay {"cents":"2"}')).toBe('pay: 2')
    expect(await next.say('call look {"at":"b"}')).toBe('look: b')
    expect(server.executions('pay')).toBe(2)
    expect(mark.count({ rpcMethod: 'tools/list' })).toBe(1)
    expect(namesOf(await next.mcp.listTools())).toEqual(['pay', 'look'])
  })

  test('is read once after parallel first calls of several threads', async () => {
    await using server = await startLegacyServer({ tools: [look] })
    const world = await startAgentWorld(server.url)
    await (await world.start(keptIn(world))).say('call look {"at":"a"}')
    age(world, 10 * MINUTE)
    const { mcp } = await world.start(keptIn(world))
    const tool = await toolOf(mcp, 'look')
    const called = deferred()
    const action = async () => {
      await called.promise
      return 'forward' as const
    }
    world.proxy.inject({ match: isRpc('tools/list'), action })
    const mark = world.proxy.mark()
    const threads = ['t1', 't2', 't3']
    await Promise.all(
      threads.map((thread_id) => tool.invoke({ at: 'b' }, { configurable: { thread_id } })),
    )
    called.resolve()
    await expect.poll(() => mcp.status()).toMatchObject([{ state: 'up' }])
    expect(server.executions('look')).toBe(4)
    expect(mark.count({ rpcMethod: 'tools/list' })).toBe(1)
  })

  test('is known to the process after that one', async () => {
    await using server = await startLegacyServer({ tools: [toolWith('look', 'at')] })
    const world = await startAgentWorld(server.url)
    await (await world.start(keptIn(world))).say('call look {"at":"a"}')
    server.tools = [toolWith('look', 'at'), toolWith('pay', 'amount')]
    age(world, 10 * MINUTE)
    const second = await world.start(keptIn(world))
    const changed = changeIn(second)
    await second.say('call look {"at":"a"}')
    await changed
    await expect.poll(() => storedNames(world)).toEqual(['look', 'pay'])
    const mark = world.proxy.mark()
    const third = await world.start(keptIn(world))
    expect(await third.say('call pay {"amount":"1"}')).toBe('pay: 1')
    expect(mark.count({ rpcMethod: 'tools/list' })).toBe(0)
  })
})

describe('a stored list', () => {
  test.each([
    ['for 5 minutes on a server with sessions', () => startLegacyServer({ tools: [look] }), 4],
    [
      'for the time that its server says',
      () => startModernServer({ tools: [look], listTtlMs: 60 * MINUTE }),
      59,
    ],
  ])('is not read again %s', async (_how, start, minutes) => {
    await using server = await start()
    const world = await startAgentWorld(server.url)
    await (await world.start(keptIn(world))).say('call look {"at":"a"}')
    age(world, minutes * MINUTE)
    const current = await world.start(keptIn(world))
    const mark = world.proxy.mark()
    await current.say('call look {"at":"a"}')
    await current.say('call look {"at":"b"}')
    expect(namesOf(await current.mcp.listTools())).toEqual(['look'])
    expect(mark.count({ rpcMethod: 'tools/list' })).toBe(0)
    expect(current.mcp.status()).toMatchObject([{ state: 'untried' }])

    age(world, 2 * MINUTE)
    const later = await world.start(keptIn(world))
    const before = world.proxy.count({ rpcMethod: 'tools/list' })
    await later.say('call look {"at":"a"}')
    await world.proxy.waitFor(() => world.proxy.count({ rpcMethod: 'tools/list' }) > before)
    await expect.poll(() => later.mcp.status()).toMatchObject([{ state: 'up' }])
  })

  test.each([
    ['is older than a day', (world: AgentWorld) => age(world, 25 * 60 * MINUTE)],
    ['is of the future', (world: AgentWorld) => age(world, -25 * 60 * MINUTE)],
    ['is damaged', (world: AgentWorld) => changeStoredLists(world, () => 'all of them')],
    ['has no tools', (world: AgentWorld) => changeStoredLists(world, (l) => ({ ...l, tools: 7 }))],
  ])('is read first if it %s, and the session continues', async (_how, change) => {
    await using server = await startLegacyServer()
    const world = await startAgentWorld(server.url)
    await (await world.start(keptIn(world))).say('call counter_add')
    expect(change(world)).toBe(1)
    const mark = world.proxy.mark()
    const next = await world.start(keptIn(world))
    expect(mark.count({ rpcMethod: 'tools/list' })).toBe(1)
    expect(await next.say('call counter_add')).toBe('counter is 2')
  })

  test('loses a damaged definition, which is reported, and keeps the others', async () => {
    await using server = await startLegacyServer({ tools: [look, toolWith('pay', 'amount')] })
    const world = await startAgentWorld(server.url)
    await (await world.start(keptIn(world))).say('call look {"at":"a"}')
    changeStoredLists(world, (list) => ({
      ...list,
      tools: [{ name: 'pay', inputSchema: 'none' }, look],
    }))
    const next = await world.start(keptIn(world, { log: () => {} }))
    expect(await next.say('call look {"at":"a"}')).toBe('look: a')
    expect(next.mcp.status()).toMatchObject([{ quarantined: [{ toolName: 'pay' }] }])
  })

  test('has the tools that were left out, with the reasons', async () => {
    const odd: TestTool = { name: 'odd', inputSchema: { type: 'list' }, run: () => 'odd' }
    await using server = await startLegacyServer({ tools: [look, odd] })
    const world = await startAgentWorld(server.url)
    const options = keptIn(world, { log: () => {} })
    const first = await world.start(options)
    const mark = world.proxy.mark()
    const next = await world.start(options)
    expect(mark.count({ rpcMethod: 'tools/list' })).toBe(0)
    const [before] = first.mcp.status()
    expect(before?.quarantined).toHaveLength(1)
    expect(next.mcp.status()).toMatchObject([{ quarantined: before?.quarantined }])
  })

  test('is dropped when the session is replaced, and stored again after the call', async () => {
    await using server = await startLegacyServer({ tools: [look] })
    const world = await startAgentWorld(server.url)
    await (await world.start(keptIn(world))).say('call look {"at":"a"}')
    server.tools = [toolWith('look', 'at'), toolWith('pay', 'amount')]
    server.forgetSessions()
    const next = await world.start(keptIn(world))
    const changed = changeIn(next)
    expect(await next.say('call look {"at":"a"}')).toBe('look: a')
    expect(await changed).toMatchObject({ added: ['pay'] })
    await expect.poll(() => storedNames(world)).toEqual(['look', 'pay'])
  })

  test('is not kept if it is longer than 256 KiB', async () => {
    const description = 'x'.repeat(262_144)
    await using server = await startLegacyServer({
      tools: [toolWith('look', 'at', { description })],
    })
    const world = await startAgentWorld(server.url)
    await (await world.start(keptIn(world))).say('call look {"at":"a"}')
    expect(age(world, 0)).toBe(0)
    const mark = world.proxy.mark()
    expect(await (await world.start(keptIn(world))).say('call look {"at":"b"}')).toBe('look: b')
    expect(mark.count({ rpcMethod: 'tools/list' })).toBe(1)
  })

  test('belongs to one principal', async () => {
    await using server = await startLegacyServer({ tools: [look] })
    const world = await startAgentWorld(server.url)
    const start = (user: string): Promise<AgentProcess> =>
      world.start(keptIn(world, { principal: () => user }))
    const lists = async (user: string): Promise<number> => {
      const mark = world.proxy.mark()
      const { mcp } = await start(user)
      await mcp.listTools({ config: {} })
      return mark.count({ rpcMethod: 'tools/list' })
    }
    await start('nobody') // listTools() is called outside a run, so that no principal is known
    expect(await lists('ada')).toBe(1)
    expect(await lists('ada')).toBe(0)
    expect(await lists('bob')).toBe(1)
  })

  test('is not used for a list that is refreshed', async () => {
    await using server = await startLegacyServer({ tools: [look] })
    const world = await startAgentWorld(server.url)
    await world.start(keptIn(world))
    server.tools = [toolWith('pay', 'amount')]
    const { mcp } = await world.start(keptIn(world))
    expect(namesOf(await mcp.listTools())).toEqual(['look'])
    expect(namesOf(await mcp.listTools({ forceRefresh: true }))).toEqual(['pay'])
    expect(namesOf(await mcp.listTools())).toEqual(['pay'])
  })
})

describe('what depends on the server being asked', () => {
  test('pins are compared with a list of this process', async () => {
    await using server = await startLegacyServer({ tools: [look] })
    const world = await startAgentWorld(server.url)
    await (await world.start(keptIn(world))).say('call look {"at":"a"}')
    const mark = world.proxy.mark()
    const next = await world.start(keptIn(world, { pin: 'first-use' }))
    expect(mark.count({ rpcMethod: 'tools/list' })).toBe(1)
    expect(await next.say('call look {"at":"a"}')).toBe('look: a')
  })

  test.each(['thread', 'shared'] as const)(
    'a call is repeated only for annotations of this process, with session: %j',
    async (session) => {
      const annotations = { readOnlyHint: true }
      await using server = await startLegacyServer({
        tools: [toolWith('look', 'at', { annotations })],
      })
      const world = await startAgentWorld(server.url)
      const options = keptIn(world, {
        session,
        replay: 'idempotent',
        onToolError: (error) => `outcome: ${error.outcome}`,
      })
      await (await world.start(options)).say('call look {"at":"a"}')
      server.tools = [toolWith('look', 'at')] // no longer harmless
      const next = await world.start(options)
      const cut = { match: isRpc('tools/call'), times: 1, action: 'reset-after' } as const
      world.proxy.inject(cut)
      expect(await next.say('call look {"at":"a"}')).toBe('outcome: unknown')
    },
  )
})

test('a current list saves an agent definition its request before the first call', async () => {
  await using server = await startLegacyServer({ tools: [look] })
  const world = await startAgentWorld(server.url)
  const directory = new StaticServerDirectory({ shop: world.proxy.url })
  const { inputSchema } = look
  const agent = {
    resources: [
      {
        $resourceType: 'mcp',
        name: 'Shop',
        slug: 'shop',
        availableTools: [{ name: 'look', inputSchema }],
      },
    ],
  }
  const start = async (): Promise<(at: string) => Promise<unknown>> => {
    const options = { directory, sessionInfoFactory: world.kept, elicitation: false } as const
    const { tools, clients } = await createMcpToolsFromAgent(agent, options)
    onTestFinished(async () => {
      await Promise.all(clients.map((client) => client.dispose()))
    })
    return async (at) => tools[0]?.invoke({ at })
  }
  expect(await (await start())('a')).toBe('look: a')
  const mark = world.proxy.mark()
  const call = await start()
  expect(await call('b')).toBe('look: b')
  expect(await call('c')).toBe('look: c')
  expect(mark.exchanges()[0]).toMatchObject({ rpcMethod: 'tools/call' })
  expect(mark.count({ rpcMethod: 'tools/list' })).toBe(0)
  age(world, 6 * MINUTE)
  expect(await (await start())('d')).toBe('look: d')
  expect(mark.count({ rpcMethod: 'tools/list' })).toBe(1)
})

test('tools of a stored list are those of the list that was read', async () => {
  await using server = await startLegacyServer()
  const world = await startAgentWorld(server.url)
  const first = await world.start(keptIn(world))
  const next = await world.start(keptIn(world))
  const definitions = async ({ mcp }: AgentProcess): Promise<unknown> =>
    (await mcp.listTools()).map(({ name, schema, definition }) => ({ name, schema, definition }))
  expect(await definitions(next)).toEqual(await definitions(first))
  expect(await (await toolOf(next.mcp, 'echo')).invoke({ text: 'a' })).toBe('a')
})

test('a stored list without a tool of `alwaysShow` is read again', async () => {
  await using server = await startLegacyServer({ tools: [look] })
  const world = await startAgentWorld(server.url)
  await (await world.start(keptIn(world))).say('call look {"at":"a"}')
  server.tools = [look, toolWith('whoami', 'at')]
  const next = await world.start(keptIn(world, { tools: { alwaysShow: ['whoami'] } }))
  expect(await next.say('call whoami {"at":"b"}')).toBe('whoami: b')
  const wrong = world.start(keptIn(world, { tools: { alwaysShow: ['whoiam'] } }))
  await expect(wrong).rejects.toMatchObject({ code: 'CONFIG' })
})
