import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { deferred } from '@x/mcp-testing'
import { afterAll, describe, expect, test, vi } from 'vitest'
import { findServer, withOverrides } from './find-server.ts'
import type { McpServerDirectory, McpServerQuery } from './server-directory.ts'

const folder = await mkdtemp(join(tmpdir(), 'mcp-overrides-'))
afterAll(() => rm(folder, { recursive: true }))

/** Returns the query as a server. */
const directory: McpServerDirectory = {
  retrieve: async ({ slug, name, folderPath }) => ({
    slug,
    name,
    folderPath,
    mcpUrl: 'https://directory.example/mcp',
    headers: { authorization: 'directory' },
  }),
}

async function found(query: McpServerQuery, environment: Record<string, string> = {}) {
  const logged: string[] = []
  const { signal } = new AbortController()
  const log = (level: string, message: string): void => void logged.push(`${level}: ${message}`)
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value)
  const server = await findServer({ query, directory, signal, log })
  return { server, logged }
}

test('asks the directory without overrides, and logs nothing', async () => {
  const { server, logged } = await found({ slug: 'shop', folderPath: 'Shared' })
  expect(server).toMatchObject({ slug: 'shop', folderPath: 'Shared' })
  expect(logged).toEqual([])
})

describe('an override', () => {
  test('for the folder takes precedence over one for all folders', async () => {
    const overrides = {
      'mcpServer.shop.Shared': { name: 'Shop in Shared' },
      'mcpServer.shop': { name: 'Any shop' },
    }
    const named = (query: McpServerQuery) => withOverrides(overrides, () => found(query))
    const shared = await named({ slug: 'shop', folderPath: 'Shared' })
    expect(shared.server).toMatchObject({ name: 'Shop in Shared', folderPath: 'Shared' })
    const other = await named({ slug: 'shop', folderPath: 'Other' })
    expect(other.server).toMatchObject({ name: 'Any shop', folderPath: 'Other' })
    const none = await named({ slug: 'shop' })
    expect(none.server).toMatchObject({ name: 'Any shop', folderPath: undefined })
    expect(none.logged).toEqual([])
  })

  test('replaces slug or name, and the folder', async () => {
    const overrides = { 'mcpServer.The shop': { slug: 'shop-2', folderPath: 'Test' } }
    const { server } = await withOverrides(overrides, () =>
      found({ name: 'The shop', folderPath: 'Shared' }),
    )
    expect(server).toMatchObject({ slug: 'shop-2', name: undefined, folderPath: 'Test' })
  })

  test('replaces the headers', async () => {
    const overrides = { 'mcpServer.shop': { headers: { authorization: 'mine' } } }
    const { server } = await withOverrides(overrides, () => found({ slug: 'shop' }))
    expect(server).toMatchObject({ slug: 'shop', headers: { authorization: 'mine' } })
    expect(server.mcpUrl).toBe('https://directory.example/mcp')
  })

  test('with a URL replaces the directory and its headers', async () => {
    const overrides = { 'mcpServer.shop': { url: 'http://127.0.0.1:9/mcp' } }
    const { server } = await withOverrides(overrides, () => found({ slug: 'shop' }))
    expect(server).toMatchObject({ slug: 'shop', mcpUrl: 'http://127.0.0.1:9/mcp' })
    expect(server.headers).toBeUndefined()
  })

  test.each([
    ['secret', 'it must be an object'],
    [{}, 'it must have at least one of slug, name, folderPath, url and headers'],
    [{ name: 7 }, 'name must be a string'],
    [{ slug: '' }, 'slug must not be empty'],
    [{ slug: 'a', name: 'b' }, 'it must not have both slug and name'],
    [{ url: 'secret' }, 'url must be an absolute URL, such as "https://host/mcp"'],
    [{ headers: { a: 'secret\n' } }, 'headers["a"] contains characters'],
  ])('that is invalid is ignored with a warning: %j', async (entry, what) => {
    const overrides = { 'mcpServer.shop.Shared': entry, 'mcpServer.shop': { name: 'Any shop' } }
    const environment = { MCP_SERVER_OVERRIDES: JSON.stringify(overrides) }
    const { server, logged } = await found({ slug: 'shop', folderPath: 'Shared' }, environment)
    expect(server).toMatchObject({ name: 'Any shop' })
    expect(logged).toHaveLength(1)
    expect(logged[0]).toContain(`warning: Override "mcpServer.shop.Shared" is ignored: ${what}`)
    expect(logged[0]).not.toContain('secret')
  })
})

describe('withOverrides()', () => {
  test('lasts as long as its function, and parallel calls do not interfere', async () => {
    const gate = deferred()
    const later = (name: string) =>
      withOverrides({ 'mcpServer.shop': { name } }, async () => {
        await gate.promise
        return found({ slug: 'shop' })
      })
    const both = Promise.all([later('one'), later('two')])
    expect((await found({ slug: 'shop' })).server).toMatchObject({ slug: 'shop' })
    gate.resolve()
    expect((await both).map(({ server }) => server.name)).toEqual(['one', 'two'])
  })

  test('replaces outer overrides, with a warning', async () => {
    const warned = once(process, 'warning')
    const { server } = await withOverrides({ 'mcpServer.shop': { name: 'outer' } }, () =>
      withOverrides({ 'mcpServer.shop': { folderPath: 'inner' } }, () => found({ slug: 'shop' })),
    )
    expect(server).toMatchObject({ slug: 'shop', name: undefined, folderPath: 'inner' })
    expect(await warned).toMatchObject([{ code: 'MCP_NESTED_OVERRIDES' }])
  })

  test('replaces the overrides of the environment', async () => {
    const environment = { MCP_SERVER_OVERRIDES: '{"mcpServer.shop":{"name":"environment"}}' }
    const { server } = await withOverrides({ 'mcpServer.shop': { name: 'scope' } }, () =>
      found({ slug: 'shop' }, environment),
    )
    expect(server.name).toBe('scope')
    expect((await found({ slug: 'shop' }, environment)).server.name).toBe('environment')
  })
})

describe('the overrides of the environment', () => {
  test('may be in a file, which each lookup reads', async () => {
    const path = join(folder, 'overrides.json')
    const environment = { MCP_SERVER_OVERRIDES: '', MCP_SERVER_OVERRIDES_FILE: path }
    await writeFile(path, '{"mcpServer.shop":{"name":"one"}}')
    expect((await found({ slug: 'shop' }, environment)).server.name).toBe('one')
    await writeFile(path, '{"mcpServer.shop":{"name":"two"}}')
    expect((await found({ slug: 'shop' }, environment)).server.name).toBe('two')
  })

  test.each([
    [{ MCP_SERVER_OVERRIDES: 'secret' }, 'MCP_SERVER_OVERRIDES is not valid JSON'],
    [{ MCP_SERVER_OVERRIDES: '["secret"]' }, 'MCP_SERVER_OVERRIDES must be a JSON object'],
    [
      { MCP_SERVER_OVERRIDES_FILE: join(folder, 'missing.json') },
      `MCP_SERVER_OVERRIDES_FILE (${join(folder, 'missing.json')}) cannot be read (ENOENT): check its path and permissions`,
    ],
  ])('reject the lookup if they cannot be read: %j', async (env, what) => {
    const error: unknown = await found({ slug: 'shop' }, env).catch((e: unknown) => e)
    expect(error).toMatchObject({
      code: 'CONFIG',
      server: 'shop',
      message: expect.stringContaining(`MCP server "shop" cannot be used: ${what}`),
    })
    expect(String(error)).not.toContain('secret')
  })
})
