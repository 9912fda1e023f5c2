import { expect, test } from 'vitest'
import { McpClientError } from '../errors.ts'
import { StaticServerDirectory } from './server-directory.ts'

const directory = new StaticServerDirectory({
  shop: 'https://shop.example/mcp',
  bank: { name: 'The bank', mcpUrl: 'https://bank.example/mcp', folderKey: 'k-1' },
  shadow: { name: 'shop', mcpUrl: 'https://shadow.example/mcp' },
})

test('finds a server by its slug', async () => {
  expect(await directory.retrieve({ slug: 'shop' })).toEqual({
    slug: 'shop',
    mcpUrl: 'https://shop.example/mcp',
  })
})

test('finds a server by its display name, and keeps all its fields', async () => {
  expect(await directory.retrieve({ name: 'The bank' })).toEqual({
    slug: 'bank',
    name: 'The bank',
    mcpUrl: 'https://bank.example/mcp',
    folderKey: 'k-1',
  })
})

test('prefers a slug to a display name', async () => {
  expect(await directory.retrieve({ name: 'shop' })).toMatchObject({ slug: 'shop' })
})

test('rejects an unknown server with NOT_FOUND, and lists the known servers', async () => {
  const error: unknown = await directory.retrieve({ slug: 'shopp' }).catch((e: unknown) => e)
  expect(error).toBeInstanceOf(McpClientError)
  expect(error).toMatchObject({
    code: 'NOT_FOUND',
    server: 'shopp',
    outcome: 'not-executed',
    message: expect.stringContaining(
      'No MCP server "shopp": use one of the known servers (shop, bank, shadow)',
    ),
  })
  const empty = new StaticServerDirectory({})
  await expect(empty.retrieve({ slug: 'x' })).rejects.toThrow('use one of the known servers (none)')
})

test('finds no server by a name of Object.prototype', async () => {
  await expect(directory.retrieve({ slug: 'constructor' })).rejects.toThrow('No MCP server')
})

test.each([{}, { slug: 'shop', name: 'shop' }, { slug: '' }])(
  'rejects the query %j with CONFIG',
  async (query) => {
    const error: unknown = await directory.retrieve(query).catch((e: unknown) => e)
    expect(error).toMatchObject({ code: 'CONFIG', outcome: 'not-executed' })
    expect(String(error)).toContain('looked up by either slug or name')
  },
)
