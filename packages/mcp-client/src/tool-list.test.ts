import type { Tool } from '@modelcontextprotocol/sdk/types.js'
import { deferred } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { ClientEvents } from './events.ts'
import { allPages, lacksStructure, outputProblem, parseToolPage, ToolList } from './tool-list.ts'
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
  const read: ReadTools = (onRequested) => {
    onRequested()
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
  test('is not requested again for a change that was announced before the request', async () => {
    let reads = 0
    const list = new ToolList(new ClientEvents())
    const read: ReadTools = async (onRequested) => {
      reads++
      list.invalidate() // by the handshake that the request waits for
      onRequested()
      return { tools: [tool('a')], leftOut: [], ttlMs: 0 }
    }
    await list.get(read, cached)
    await list.get(read, cached)
    expect(reads).toBe(1)
  })

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
    const read: ReadTools = async (onRequested) => {
      onRequested()
      return { tools, leftOut: [], ttlMs: 0 }
    }
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

const list = { server: 'shop', method: 'tools/list' }

/** A list with this number of pages. */
function listOf(pages: number): Promise<readonly number[]> {
  let page = 0
  return allPages(list, async () => ({
    items: [page],
    nextCursor: ++page < pages ? String(page) : undefined,
  }))
}

describe('pages', () => {
  test('accept an empty cursor', async () => {
    const cursors: (string | undefined)[] = []
    await allPages(list, async (cursor) => {
      cursors.push(cursor)
      return { items: [], nextCursor: cursor === undefined ? '' : undefined }
    })
    expect(cursors).toEqual([undefined, ''])
  })

  test('reject a repeated cursor with an error that names the server and the list', async () => {
    const pages = allPages(list, async () => ({ items: [], nextCursor: 'again' }))
    await expect(pages).rejects.toMatchObject({ code: 'INVALID_LIST', server: 'shop' })
    await expect(pages).rejects.toThrow(/"shop".*tools\/list/)
  })

  test('accept 64 pages, and reject a 65th', async () => {
    await expect(listOf(64)).resolves.toHaveLength(64)
    await expect(listOf(65)).rejects.toMatchObject({ code: 'INVALID_LIST' })
  })
})

const inputSchema = { type: 'object' }

test('parseToolPage() returns tools and cursor', () => {
  const tools = [{ name: 'a', inputSchema, outputSchema: { type: 'object' } }]
  expect(parseToolPage({ tools, nextCursor: 'x' })).toEqual({
    items: tools,
    nextCursor: 'x',
    leftOut: [],
  })
})

test('parseToolPage() leaves out an invalid tool with a reason, and keeps the others', () => {
  const good = { name: 'good', inputSchema }
  const page = parseToolPage({ tools: [{ name: 'bad', inputSchema: 'none' }, good, null, {}] })
  expect(page?.items).toEqual([good])
  expect(page?.leftOut).toEqual([
    { name: 'bad', reason: expect.stringContaining('inputSchema') },
    { name: 'tool 3', reason: expect.any(String) },
    { name: 'tool 4', reason: expect.stringContaining('name') },
  ])
})

test('parseToolPage() removes an output schema whose type is not object, and keeps the tool', () => {
  const page = parseToolPage({
    tools: [{ name: 'a', inputSchema, outputSchema: { type: 'array' } }],
  })
  expect(page).toEqual({ items: [{ name: 'a', inputSchema }], leftOut: [] })
})

test.each([{}, { tools: 'none' }, { tools: [], nextCursor: 7 }])(
  'parseToolPage() returns undefined for %o',
  (result) => {
    expect(parseToolPage(result)).toBe(undefined)
  },
)

const counter: Tool = {
  name: 'count',
  inputSchema: { type: 'object' },
  outputSchema: { type: 'object', properties: { count: { type: 'number' } }, required: ['count'] },
}

test('outputProblem() describes output that does not fit, every time', () => {
  for (let n = 0; n < 2; n++) {
    const fault = outputProblem(counter, { content: [], structuredContent: { count: 'one' } })
    expect(fault).toContain('count')
  }
})

test('lacksStructure() finds a result without structured content, unless the tool failed or has no schema', () => {
  expect(lacksStructure(counter, { content: [] })).toBe(true)
  expect(outputProblem(counter, { content: [] })).toBeUndefined()
  expect(lacksStructure(counter, { content: [], isError: true })).toBe(false)
  expect(lacksStructure(counter, { content: [], structuredContent: {} })).toBe(false)
  expect(lacksStructure({ ...counter, outputSchema: undefined }, { content: [] })).toBe(false)
})

test('outputProblem() checks nothing without a usable schema', () => {
  const { outputSchema: _outputSchema, ...bare } = counter
  expect(outputProblem(bare, { content: [], structuredContent: { any: 1 } })).toBeUndefined()
  const broken: Tool = {
    ...counter,
    outputSchema: { type: 'object', properties: { count: { $ref: '#/nowhere' } } },
  }
  expect(outputProblem(broken, { content: [], structuredContent: { count: 1 } })).toBeUndefined()
})

test.each([
  ['uuid', 'urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6'],
  ['date-time', '2024-01-01T10:00:00+01'],
  ['hostname', 'example.com.'],
  ['regex', '^pay\\-'],
])(
  'outputProblem() leaves the format %s to the server, because the tool was executed',
  (format, ref) => {
    const properties = { ref: { format }, other: { not: { format } }, count: { type: 'number' } }
    const paid: Tool = { ...counter, outputSchema: { type: 'object', properties } }
    const structuredContent = { ref, other: ref, count: 1 }
    expect(outputProblem(paid, { content: [], structuredContent })).toBeUndefined()
    const wrong = { ...structuredContent, count: 'one' }
    expect(outputProblem(paid, { content: [], structuredContent: wrong })).toContain('#/count')
  },
)

test('outputProblem() does not change the frozen schema of the cached list', () => {
  const frozen = { ...counter, outputSchema: Object.freeze({ type: 'object' as const }) }
  expect(outputProblem(frozen, { content: [], structuredContent: {} })).toBeUndefined()
})

test('outputProblem() keeps schemas of two servers apart that have the same $id', () => {
  const $id = 'https://schemas.example/result'
  const outputSchema = { $id, type: 'object' as const, properties: { total: { type: 'number' } } }
  const other: Tool = { ...counter, outputSchema }
  const first: Tool = { ...counter, outputSchema: { ...counter.outputSchema, type: 'object', $id } }
  expect(outputProblem(first, { content: [], structuredContent: { count: 1 } })).toBeUndefined()
  expect(outputProblem(other, { content: [], structuredContent: { total: 1 } })).toBeUndefined()
})

test('outputProblem() gives up a check that takes too long', () => {
  const outputSchema = { type: 'object' as const, properties: { a: { pattern: '^(a+)+$' } } }
  const slow: Tool = { ...counter, outputSchema }
  const structuredContent = { a: `${'a'.repeat(40)}!` }
  expect(outputProblem(slow, { content: [], structuredContent })).toBeUndefined()
})
