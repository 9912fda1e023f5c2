import { describe, expect, test } from 'vitest'
import { allPages, parseToolPage } from './lists.ts'

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

  test('end with a repeated cursor, with its page, if the caller wants to know', async () => {
    const reasons: string[] = []
    const onRepeated = (reason: string): unknown => reasons.push(reason)
    const pages: Record<string, string[]> = { '': ['a', 'b'], x: ['c'], y: ['a', 'd'] }
    const next: Record<string, string> = { '': 'x', x: 'y', y: 'x' }
    const all = await allPages({ ...list, onRepeated }, async (cursor = '') => ({
      items: pages[cursor] ?? [],
      nextCursor: next[cursor],
    }))
    expect(all).toEqual(['a', 'b', 'c', 'a', 'd'])
    expect(reasons).toEqual([expect.stringContaining('tools/list')])
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
