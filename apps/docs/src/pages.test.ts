import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { entriesOf, expectedPages, groups, readIndex, ROOT, siteAddress, titleOf } from './pages.ts'

const listed = entriesOf(groups()).map(({ path }) => path)

test('lists each page and each document of a package once', () => {
  const missing = expectedPages().filter((page) => !listed.includes(page))
  expect(missing, 'Add these pages to docs/README.md').toEqual([])
  expect(listed, 'docs/README.md lists a page twice').toEqual([...new Set(listed)])
})

test('lists only what exists', () => {
  expect(listed.filter((path) => !existsSync(join(ROOT, path)))).toEqual([])
})

test('has the groups in the order in which they are read', () => {
  const order = ['Start', 'Guides', 'Gateway', 'Connect', 'Reference', 'Why']
  const titles = groups().map(({ title }) => title)
  expect(titles.filter((title) => order.includes(title))).toEqual(
    order.filter((title) => titles.includes(title)),
  )
})

test('gives each page an address and a title of its own', () => {
  const pages = listed.filter((path) => path.endsWith('.md'))
  expect(new Set(pages.map(siteAddress)).size).toBe(pages.length)
  expect(new Set(pages.map(titleOf)).size).toBe(pages.length)
})

test('reads groups, groups inside them, and items that begin with a link', () => {
  const index =
    '# T\n- [no group](x.md)\n## A\n- [a](a.md): text\n### B\n- [b](../b/README.md)\n## C'
  expect(readIndex(index)).toEqual([
    {
      title: 'A',
      entries: [
        { text: 'a', path: 'docs/a.md' },
        { title: 'B', entries: [{ text: 'b', path: 'b/README.md' }] },
      ],
    },
  ])
})

test.each([
  ['README.md', '/'],
  ['docs/README.md', '/contents'],
  ['docs/reference/errors.md', '/e'], // error-link.ts
  ['docs/guides/tool-calls.md', '/guides/tool-calls'],
  ['packages/mcp-client/README.md', '/packages/mcp-client/'],
  ['packages/mcp-client/PROTOCOL.md', '/packages/mcp-client/protocol'],
  ['apps/docs/api/mcp-client/index.md', '/api/mcp-client/'],
])('serves %s as %s', (file, address) => {
  expect(siteAddress(file)).toBe(address)
})
