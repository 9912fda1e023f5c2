import type { Tool } from '@modelcontextprotocol/sdk/types.js'
import { deferred } from '@x/mcp-testing'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { ClientEvents } from './events.ts'
import { PrincipalLists, ToolList } from './tool-list.ts'
import type { StoredToolList } from './stored-tool-lists.ts'
import type { ReadTools, ToolsRead } from './tool-list.ts'

const { signal } = new AbortController()
/** A session whose errors are those of all callers. */
const watching = () => ({ isWatching: true, isOfOtherHeaders: async () => false })
const reader = watching()
const cached = { forceRefresh: false, signal, reader }
const fresh = { forceRefresh: true, signal, reader }

function tool(name: string, description = ''): Tool {
  return { name, description, inputSchema: { type: 'object' } }
}

/** A server whose requests the test answers, in any order. */
function startFetches() {
  const fetches: ReturnType<typeof deferred<ToolsRead>>[] = []
  const read: ReadTools = () => {
    const fetch = deferred<ToolsRead>()
    fetches.push(fetch)
    return fetch.promise
  }
  const answer = (n: number, name: string): void =>
    fetches[n - 1]?.resolve({ tools: [tool(name)], leftOut: [], ttlMs: 0 })
  return { read, answer, count: () => fetches.length }
}

/** Lets all pending callbacks run. */
async function settle(): Promise<void> {
  await new Promise(setImmediate)
}

const names = (tools: readonly Tool[]): string[] => tools.map(({ name }) => name)

describe('the list', () => {
  test('is outdated when the server announces a change, also during a request', async () => {
    const { read, answer, count } = startFetches()
    const list = new ToolList(new ClientEvents())
    const first = list.get(read, cached)
    await settle()
    list.invalidate()
    const second = list.get(read, cached)
    await settle()
    answer(2, 'new')
    answer(1, 'old')
    expect(names(await second)).toEqual(['new'])
    expect(names(await first)).toEqual(['old'])
    expect(names(await list.get(read, cached))).toEqual(['new'])
    expect(count()).toBe(2)
  })

  test('is requested again by forceRefresh, and later callers share that request', async () => {
    const { read, answer, count } = startFetches()
    const list = new ToolList(new ClientEvents())
    const first = list.get(read, cached)
    await settle()
    const forced = list.get(read, fresh)
    const joined = list.get(read, cached)
    await settle()
    expect(count()).toBe(2)
    answer(2, 'new')
    expect(names(await forced)).toEqual(['new'])
    expect(names(await joined)).toEqual(['new'])
    answer(1, 'old')
    expect(names(await first)).toEqual(['old'])
    expect(names(await list.get(read, cached))).toEqual(['new'])
  })

  test('is requested in each session that asks for it, so that no caller gets the failure of another session', async () => {
    const list = new ToolList(new ClientEvents())
    const { read, answer, count } = startFetches()
    const failed = list.get(() => Promise.reject(new Error('lost')), {
      ...cached,
      reader: watching(),
    })
    const other = list.get(read, cached)
    await expect(failed).rejects.toThrow('lost')
    await settle()
    expect(count()).toBe(1)
    answer(1, 'a')
    expect(names(await other)).toEqual(['a'])
    expect(list.current).toEqual([tool('a')])
  })

  test('is requested once in each session, however their callers take turns', async () => {
    const list = new ToolList(new ClientEvents())
    const { read, answer, count } = startFetches()
    const other = { ...cached, reader: watching() }
    const lists = [cached, other, cached, other].map((options) => list.get(read, options))
    await settle()
    expect(count()).toBe(2)
    answer(1, 'a')
    answer(2, 'a')
    expect((await Promise.all(lists)).map(names)).toEqual([['a'], ['a'], ['a'], ['a']])
  })

  test.each([
    ['after a change', cached],
    ['with forceRefresh', fresh],
  ])('is that of the newest request that has been answered, %s', async (_when, options) => {
    const { read, answer } = startFetches()
    const list = new ToolList(new ClientEvents())
    const old = list.get(read, cached)
    await settle()
    answer(1, 'old')
    await old
    if (!options.forceRefresh) list.invalidate()
    const [first, second, third] = [1, 2, 3].map(() =>
      list.get(read, { ...options, reader: watching() }),
    )
    await settle()
    answer(2, 'new')
    const tools = await first
    expect(list.known).toMatchObject({ tools, isCurrent: true })
    list.invalidate()
    answer(4, 'newest')
    const newest = await third
    expect(list.known).toMatchObject({ tools: newest, isCurrent: false })
    answer(3, 'newer')
    await second
    expect(list.known?.tools).toBe(newest)
  })

  test('stays current for 5 minutes after it was read, if its session is closed', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    onTestFinished(() => void vi.useRealTimers())
    const list = new ToolList(new ClientEvents())
    const session = watching()
    const tools = await list.get(async () => ({ tools: [tool('a')], leftOut: [], ttlMs: 0 }), {
      ...cached,
      reader: session,
    })
    vi.advanceTimersByTime(300_000)
    expect(list.current).toBe(tools)
    session.isWatching = false
    expect(list.current).toBeUndefined()
    expect(list.known).toEqual({ tools, leftOut: [], isStored: false, isCurrent: false })
  })

  test('emits which tools were added, removed and changed', async () => {
    const changes: unknown[] = []
    let tools = [tool('a'), tool('b')]
    const events = new ClientEvents()
    events.on('toolsChanged', (change) => changes.push(change))
    const list = new ToolList(events)
    const read: ReadTools = async () => ({ tools, leftOut: [], ttlMs: 0 })
    await list.get(read, cached)
    await list.get(read, fresh)
    expect(changes).toEqual([])
    tools = [tool('b', 'other'), tool('c')]
    await list.get(read, fresh)
    expect(changes).toEqual([{ added: ['c'], removed: ['a'], changed: ['b'] }])
    tools = [{ ...tool('c'), _meta: { page: 2 } }, tool('b', 'other')]
    await list.get(read, fresh)
    expect(changes).toHaveLength(1) // another order, and another response
    tools = [{ ...tool('c'), _meta: { ui: { visibility: ['app'] } } }, tool('b', 'other')]
    await list.get(read, fresh)
    expect(changes.at(-1)).toEqual({ added: [], removed: [], changed: ['c'] })
  })

  test('cannot be changed by its callers', async () => {
    const list = new ToolList(new ClientEvents())
    const tools = await list.get(
      async () => ({ tools: [tool('a')], leftOut: [], ttlMs: 0 }),
      cached,
    )
    expect(() => (tools as Tool[]).pop()).toThrow(TypeError)
    expect(() => Object.assign(tools[0]?.inputSchema ?? {}, { type: 'array' })).toThrow(TypeError)
  })
})

describe('the list of an earlier process', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
  afterEach(() => void vi.useRealTimers())

  const tools = [tool('pay')]
  const stored = (currentMs: number): StoredToolList => ({ tools, leftOut: [], currentMs })
  const readOwn = (list: ToolList): Promise<readonly Tool[]> =>
    list.get(async () => ({ tools: [tool('look')], leftOut: [], ttlMs: 0 }), cached)

  test('is used while it counts as current, and is outdated after that', () => {
    const list = new ToolList(new ClientEvents())
    expect(list.useStored(stored(120_000), false)).toBe(tools)
    expect(list.known).toEqual({ tools, leftOut: [], isStored: true, isCurrent: true })
    expect(list.useStored(stored(1), true)).toBe(tools)
    vi.advanceTimersByTime(60_000)
    expect(list.known).toMatchObject({ isCurrent: false })
    expect(list.useStored(stored(0), true)).toBeUndefined()
  })

  test.each([0, -3_600_000])('can be used for a minute if it is outdated: %i', (ms) => {
    const list = new ToolList(new ClientEvents())
    expect(list.useStored(stored(ms), false)).toBeUndefined()
    expect(list.useStored(stored(ms), true)).toBe(tools)
    expect(list.known).toEqual({ tools, leftOut: [], isStored: true, isCurrent: false })
    vi.advanceTimersByTime(59_999)
    expect(list.useStored(stored(ms), true)).toBe(tools)
    vi.advanceTimersByTime(1)
    expect(list.useStored(stored(ms), true)).toBeUndefined()
  })

  test('is not used after this process has read its own, which is compared with it', async () => {
    const events = new ClientEvents()
    const changes: unknown[] = []
    events.on('toolsChanged', (change) => changes.push(change))
    const list = new ToolList(events)
    list.useStored(stored(1000), false)
    expect(list.find('pay')).toBeUndefined() // nothing is decided by its annotations
    await readOwn(list)
    expect(list.useStored(stored(1000), true)).toBeUndefined()
    expect(list.known).toMatchObject({ isStored: false, isCurrent: true })
    expect(changes).toEqual([{ added: ['look'], removed: ['pay'], changed: [] }])
  })

  test('is outdated, and used no more, after a change', () => {
    const list = new ToolList(new ClientEvents())
    list.useStored(stored(1000), false)
    list.invalidate()
    expect(list.known).toEqual({ tools, leftOut: [], isStored: true, isCurrent: false })
    expect(list.useStored(stored(1000), true)).toBeUndefined()
  })
})

describe('the lists of principals', () => {
  const read: ReadTools = async () => ({ tools: [tool('a')], leftOut: [], ttlMs: 0 })

  test('are separate, and all outdated when the server announces a change', async () => {
    const lists = new PrincipalLists(new ClientEvents(), 10)
    const [ada, bob] = [lists.of('ada'), lists.of('bob')]
    await ada.get(read, cached)
    expect(bob.known).toBeUndefined()
    await bob.get(read, cached)
    expect(lists.of('ada')).toBe(ada)
    lists.invalidate()
    expect([ada.current, bob.current]).toEqual([undefined, undefined])
    const stored = { tools: [tool('b')], leftOut: [], currentMs: 1000 }
    expect(lists.of('eve').useStored(stored, true)).toBeUndefined()
  })

  test('emit their changes with their principal', async () => {
    const events = new ClientEvents()
    const scopes: unknown[] = []
    events.on('toolsChanged', (_change, scope) => scopes.push(scope))
    const lists = new PrincipalLists(events, 10)
    for (const principal of ['ada', undefined]) {
      await lists.of(principal).get(async () => ({ tools: [], leftOut: [], ttlMs: 0 }), fresh)
      await lists.of(principal).get(read, fresh)
    }
    expect(scopes).toEqual([{ principal: 'ada' }, undefined])
  })

  test('are kept if they were used last', async () => {
    const lists = new PrincipalLists(new ClientEvents(), 2)
    const ada = lists.of('ada')
    lists.of('bob')
    lists.of('ada')
    lists.of('eve')
    expect(lists.of('ada')).toBe(ada)
  })
})
