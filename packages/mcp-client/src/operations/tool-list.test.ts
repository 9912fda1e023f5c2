import type { Tool } from '@modelcontextprotocol/sdk/types.js'
import { deferred } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { ToolList } from './tool-list.ts'
import type { ReadTools, ToolChanges } from './tool-list.ts'

const { signal } = new AbortController()
const cached = { forceRefresh: false, signal }
const fresh = { forceRefresh: true, signal }

function tool(name: string, description = ''): Tool {
  return { name, description, inputSchema: { type: 'object' } }
}

/** A server whose fetches are answered by the test, in any order. */
function startFetches(): {
  read: ReadTools
  answer: (n: number, ...names: string[]) => void
  fail: (n: number) => void
  count: () => number
} {
  const fetches: ReturnType<typeof deferred<readonly Tool[]>>[] = []
  return {
    read: (onAsked) => {
      onAsked()
      const fetch = deferred<readonly Tool[]>()
      fetches.push(fetch)
      return fetch.promise
    },
    answer: (n, ...names) => fetches[n - 1]?.resolve(names.map((name) => tool(name))),
    fail: (n) => fetches[n - 1]?.reject(new Error('down')),
    count: () => fetches.length,
  }
}

/** What is ready to run has run. */
async function settle(): Promise<void> {
  await new Promise(setImmediate)
}

const names = (tools: readonly Tool[]): string[] => tools.map(({ name }) => name)

describe('the list', () => {
  test('is fetched once for all who ask meanwhile, and then kept', async () => {
    const { read, answer, count } = startFetches()
    const list = new ToolList(read, () => {})
    const asked = [list.get(cached), list.get(cached)]
    await settle()
    answer(1, 'a')
    expect((await Promise.all(asked)).map(names)).toEqual([['a'], ['a']])
    expect(names(await list.get(cached))).toEqual(['a'])
    expect(count()).toBe(1)
    expect(list.find('a')).toEqual(tool('a'))
    expect(list.find('b')).toBe(undefined)
  })

  test('an invalidation of before the list was asked for costs no second fetch', async () => {
    let reads = 0
    const list: ToolList = new ToolList(
      async (onAsked) => {
        reads++
        list.invalidate() // the handshake that the fetch has to wait for
        onAsked()
        return [tool('a')]
      },
      () => {},
    )
    await list.get(cached)
    await list.get(cached)
    expect(reads).toBe(1)
  })

  test('is stale when the server says so, also while it is fetched', async () => {
    const { read, answer, count } = startFetches()
    const list = new ToolList(read, () => {})
    const first = list.get(cached)
    await settle()
    list.invalidate()
    const second = list.get(cached)
    await settle()
    answer(2, 'new')
    answer(1, 'old')
    expect(names(await second)).toEqual(['new'])
    expect(names(await first)).toEqual(['old'])
    expect(names(await list.get(cached))).toEqual(['new'])
    expect(count()).toBe(2)
  })

  test('nobody gets the stale list while the new one is fetched', async () => {
    const { read, answer } = startFetches()
    const list = new ToolList(read, () => {})
    const first = list.get(cached)
    await settle()
    answer(1, 'old')
    await first
    list.invalidate()
    const asked = [list.get(cached), list.get(cached)]
    await settle()
    answer(2, 'new')
    expect((await Promise.all(asked)).map(names)).toEqual([['new'], ['new']])
  })

  test('forceRefresh starts a fetch of its own; who asks after it joins that one', async () => {
    const { read, answer, count } = startFetches()
    const list = new ToolList(read, () => {})
    const first = list.get(cached)
    await settle()
    const forced = list.get(fresh)
    const joined = list.get(cached)
    await settle()
    expect(count()).toBe(2)
    answer(2, 'new')
    expect(names(await forced)).toEqual(['new'])
    expect(names(await joined)).toEqual(['new'])
    answer(1, 'old')
    expect(names(await first)).toEqual(['old'])
    expect(names(await list.get(cached))).toEqual(['new'])
  })

  test('a fetch that fails fails those who wait, and leaves the old list for replay decisions', async () => {
    const { read, answer, fail, count } = startFetches()
    const list = new ToolList(read, () => {})
    const first = list.get(cached)
    await settle()
    answer(1, 'a')
    await first
    const forced = list.get(fresh)
    await settle()
    fail(2)
    await expect(forced).rejects.toThrow('down')
    expect(list.find('a')).toBeDefined()
    expect(names(await list.get(cached))).toEqual(['a'])
    expect(count()).toBe(2)
  })

  test('clear() forgets it, and ends the wait for one that is still to come', async () => {
    const { read, answer, count } = startFetches()
    const list = new ToolList(read, () => {})
    const first = list.get(cached)
    await settle()
    list.clear(new Error('closed'))
    await expect(first).rejects.toThrow('closed')
    answer(1, 'a')
    await settle()
    expect(list.find('a')).toBe(undefined)
    void list.get(cached)
    await settle()
    expect(count()).toBe(2)
  })

  test('tells what was added, removed and changed', async () => {
    const changes: ToolChanges[] = []
    let tools = [tool('a'), tool('b')]
    const list = new ToolList(
      async (onAsked) => {
        onAsked()
        return tools
      },
      (change) => changes.push(change),
    )
    await list.get(cached)
    await list.get(fresh)
    expect(changes).toEqual([])
    tools = [tool('b', 'other'), tool('c')]
    await list.get(fresh)
    expect(changes).toEqual([{ added: ['c'], removed: ['a'], changed: ['b'] }])
  })

  test('cannot be changed by those who got it', async () => {
    const list = new ToolList(
      async () => [tool('a')],
      () => {},
    )
    const tools = await list.get(cached)
    expect(() => (tools as Tool[]).pop()).toThrow(TypeError)
    expect(() => Object.assign(tools[0]?.inputSchema ?? {}, { type: 'array' })).toThrow(TypeError)
  })
})
