import type { Tool } from '@modelcontextprotocol/sdk/types.js'
import { deferred } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { ClientEvents } from './events.ts'
import { ToolList } from './tool-list.ts'
import type { ReadTools, ToolsRead } from './tool-list.ts'

const { signal } = new AbortController()
const cached = { forceRefresh: false, signal }
const fresh = { forceRefresh: true, signal }

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

  test('is removed by clear(), which also rejects the waiting callers', async () => {
    const { read, answer, count } = startFetches()
    const list = new ToolList(new ClientEvents())
    const first = list.get(read, cached)
    await settle()
    list.clear(new Error('closed'))
    await expect(first).rejects.toThrow('closed')
    answer(1, 'a')
    await settle()
    expect(list.find('a')).toBe(undefined)
    void list.get(read, cached)
    await settle()
    expect(count()).toBe(2)
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
