import { createDispatcher } from '@x/mcp-transport'
import { handlerDispatcher } from '@x/internal/testing/undici'
import { startLegacyServer, startTestServer } from '@x/mcp-testing'
import { expect, test, vi } from 'vitest'
import { httpDirectory, McpClient, withOverrides } from '../src/index.ts'
import type { HttpDirectoryOptions, McpServerDirectory, McpServerQuery } from '../src/index.ts'
import { RecordingFactory } from './session-stores.ts'
import { recordEvents } from './setting.ts'

test('looks a server up once until dispose(), and passes its description to the session store', async () => {
  await using server = await startLegacyServer()
  let lookups = 0
  await using asked = await startTestServer((_request, response) => {
    lookups++
    response.end(JSON.stringify({ slug: 'shop', mcpUrl: server.url, type: 4 }))
  })
  const factory = new RecordingFactory()
  const directory = httpDirectory({ url: asked.url, folderKey: 'f-1' })
  await using client = new McpClient(
    { name: 'The shop' },
    { directory, sessionInfoFactory: factory },
  )
  expect(lookups).toBe(0)
  await Promise.all([client.ping(), client.callTool('echo', { text: 'x' }), client.listTools()])
  server.forgetSessions()
  await client.ping()
  expect(lookups).toBe(1)
  expect(factory.servers).toMatchObject([{ slug: 'shop', folderKey: 'f-1', type: 4 }])
  await client.dispose()
  await client.ping()
  expect(lookups).toBe(2)
})

test('sends the token of an HTTP directory to a server of the same origin only if the option is set', async () => {
  await using server = await startLegacyServer()
  await using elsewhere = await startLegacyServer()
  let token = 'platform-1'
  const client = (target: string, options: HttpDirectoryOptions, also = {}): McpClient => {
    const url = new URL('/platform', server.url)
    const directory = httpDirectory({ url, token: () => token, ...options })
    const answer = (): Response => Response.json({ slug: 'shop', mcpUrl: target, ...also })
    const dispatcher = handlerDispatcher(answer)
    const retrieve: McpServerDirectory['retrieve'] = (query) =>
      directory.retrieve({ ...query, dispatcher })
    return new McpClient({ slug: 'shop' }, { directory: { retrieve } })
  }
  let seen = 0
  /** Values of `authorization` since the last call. */
  const sent = (): unknown[] => {
    const requests = server.received.slice(seen)
    seen += requests.length
    return [...new Set(requests.map(({ headers }) => headers['authorization']))]
  }
  const asked = { shareTokenWithSameOrigin: true }

  await using quiet = client(server.url, {})
  await quiet.ping()
  expect(sent()).toEqual([undefined])

  await using shared = client(server.url, asked)
  await shared.ping()
  expect(sent()).toEqual(['Bearer platform-1'])
  token = 'platform-2'
  await shared.ping()
  expect(sent()).toEqual(['Bearer platform-2'])

  const own = { headers: { Authorization: 'Bearer own' } }
  await using named = client(server.url, asked, own)
  await named.ping()
  expect(sent()).toEqual(['Bearer own'])

  await using foreign = client(elsewhere.url, asked)
  await foreign.ping()
  expect(elsewhere.received.map(({ headers }) => headers['authorization'])).toContain(undefined)
  expect(elsewhere.received.filter(({ headers }) => headers['authorization'])).toEqual([])
})

test('accepts an authProvider from a directory in this process, and not from the network', async () => {
  await using server = await startLegacyServer()
  const authProvider = { token: () => 'from-the-directory' }
  const directory = { retrieve: async () => ({ mcpUrl: server.url, authProvider }) }
  await using client = new McpClient({ slug: 'shop' }, { directory })
  await client.ping()
  expect(server.received.at(-1)?.headers['authorization']).toBe('Bearer from-the-directory')

  const answer = Response.json({ mcpUrl: server.url, authProvider: { token: 'x' } })
  const dispatcher = handlerDispatcher(() => answer)
  const found = await httpDirectory('http://directory.test').retrieve({ slug: 'shop', dispatcher })
  expect(found).not.toHaveProperty('authProvider')
})

test('looks a display name up in the folder of the agent, which is known at the first call', async () => {
  await using server = await startLegacyServer()
  const asked: unknown[] = []
  await using directory = await startTestServer((request, response) => {
    asked.push([request.url, request.headers['x-uipath-folderkey']])
    response.end(JSON.stringify({ name: 'The shop', mcpUrl: server.url }))
  })
  vi.stubEnv('UIPATH_URL', directory.url)
  await using client = new McpClient({ name: 'The shop' })
  vi.stubEnv('UIPATH_FOLDER_KEY', 'folder-of-the-run')
  await client.ping()
  expect(asked).toEqual([
    [expect.stringMatching(/\/agenthub_\/api\/servers\/The%20shop$/), 'folder-of-the-run'],
  ])
})

test('applies the overrides of the first call, not of the constructor', async () => {
  await using server = await startLegacyServer()
  const directory = httpDirectory({ url: 'http://127.0.0.1:1' })
  await using client = new McpClient({ slug: 'shop', folderPath: 'Shared' }, { directory })
  const observed = recordEvents(client)
  await withOverrides({ 'mcpServer.shop': { url: server.url } }, () => client.ping())
  expect(server.count('initialize')).toBe(1)
  expect(observed.filter(({ event }) => event === 'log')).toEqual([])
})

test('passes the folder, the dispatcher and a signal to the directory', async () => {
  await using server = await startLegacyServer()
  const dispatcher = createDispatcher()
  const asked: McpServerQuery[] = []
  const directory = {
    retrieve: async (query: McpServerQuery) => {
      asked.push(query)
      return { mcpUrl: server.url }
    },
  }
  const client = new McpClient(
    { name: 'The shop', folderPath: 'Shared' },
    { directory, dispatcher },
  )
  await client.ping()
  await client.dispose()
  await dispatcher.destroy()
  expect(asked).toMatchObject([{ name: 'The shop', folderPath: 'Shared' }])
  expect(asked[0]?.dispatcher).toBe(dispatcher)
  expect(asked[0]?.signal).toBeInstanceOf(AbortSignal)
})

test('logs that no override matched, with the keys that were tried', async () => {
  await using server = await startLegacyServer()
  const directory = { retrieve: async () => ({ mcpUrl: server.url }) }
  await using client = new McpClient({ slug: 'shop', folderPath: 'Shared' }, { directory })
  const observed = recordEvents(client)
  await withOverrides({ 'mcpServer.bank': { url: server.url } }, () => client.ping())
  const tried = 'No override for MCP server "shop"; tried: mcpServer.shop.Shared, mcpServer.shop'
  const payload = { level: 'info', message: expect.stringContaining(tried) as unknown }
  expect(observed).toContainEqual({ event: 'log', payload })
})
