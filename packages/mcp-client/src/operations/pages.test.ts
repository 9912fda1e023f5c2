import { describe, expect, test } from 'vitest'
import { allPages } from './pages.ts'

const list = { server: 'shop', method: 'tools/list' }

/** A list of so many pages. */
function listOf(pages: number): Promise<readonly number[]> {
  let page = 0
  return allPages(list, async () => ({
    items: [page],
    nextCursor: ++page < pages ? String(page) : undefined,
  }))
}

describe('pages', () => {
  test('are read until there is no cursor', async () => {
    const cursors: (string | undefined)[] = []
    const items = await allPages(list, async (cursor) => {
      const n = cursors.push(cursor)
      return { items: [n], nextCursor: n < 3 ? `page ${n + 1}` : undefined }
    })
    expect(items).toEqual([1, 2, 3])
    expect(cursors).toEqual([undefined, 'page 2', 'page 3'])
  })

  test('an empty cursor is a cursor', async () => {
    const cursors: (string | undefined)[] = []
    await allPages(list, async (cursor) => {
      cursors.push(cursor)
      return { items: [], nextCursor: cursor === undefined ? '' : undefined }
    })
    expect(cursors).toEqual([undefined, ''])
  })

  test('a cursor that comes twice is an error that names the server and the list', async () => {
    const pages = allPages(list, async () => ({ items: [], nextCursor: 'again' }))
    await expect(pages).rejects.toMatchObject({ code: 'INVALID_LIST', server: 'shop' })
    await expect(pages).rejects.toThrow(/"shop".*tools\/list/)
  })

  test('64 pages are read, a 65th is not', async () => {
    await expect(listOf(64)).resolves.toHaveLength(64)
    await expect(listOf(65)).rejects.toMatchObject({ code: 'INVALID_LIST' })
  })
})
