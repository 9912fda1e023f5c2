import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { startLegacyServer, startTestServer } from '@x/mcp-testing'
import { bearer } from '@x/mcp-transport/auth'
import { describe, expect, test } from 'vitest'
import { httpDirectory, McpClient, mcpJsonDirectory } from '../src/index.ts'
import type { McpServer, SessionScope } from '../src/index.ts'
import { rejectionOf, startSetting, recordEvents } from './setting.ts'
import { makeTemporaryFolder } from './temporary-folder.ts'

test('asks a token provider for every request, and sends the trace of the caller', async () => {
  await using server = await startLegacyServer({ listenStream: 'refuse-405' })
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  let asked = 0
  await using client = new McpClient(
    { url: server.url },
    { authProvider: bearer(() => `token-${++asked}`), traceContext: () => ({ traceparent }) },
  )
  await client.callTool('counter_add')
  await client.callTool('counter_add')
  const calls = server.received.filter(({ rpcMethod }) => rpcMethod === 'tools/call')
  expect(new Set(calls.map(({ headers }) => headers['authorization'])).size).toBe(2)
  expect(
    calls.every(({ headers }) => /^Bearer token-\d+$/.test(String(headers['authorization']))),
  ).toBe(true)
  expect(calls[0]?.params).toMatchObject({ _meta: { traceparent } })
})

describe('secrets that a config only names', () => {
  test('come from the source for each request, and the given config is not changed', async () => {
    await using server = await startLegacyServer({ listenStream: 'refuse-405' })
    const config = Object.freeze({
      url: server.url,
      headers: Object.freeze({ 'x-tenant': 'a', 'X-API-KEY': 'placeholder' }),
      secretHeaderKeys: Object.freeze(['x-api-key']),
    })
    const asked: unknown[] = []
    let times = 0
    const secrets = async (
      key: string,
      about: McpServer,
      scope?: SessionScope,
    ): Promise<string> => {
      asked.push([key, about, scope])
      return `key-${++times}`
    }
    const scope = { principal: 'ada' }
    await using client = new McpClient(config, { secrets, scope })
    expect(asked).toEqual([])
    await client.callTool('counter_add')
    await client.callTool('counter_add')
    const calls = server.received.filter(({ rpcMethod }) => rpcMethod === 'tools/call')
    expect(calls.map(({ headers }) => headers['x-tenant'])).toEqual(['a', 'a'])
    const keys = calls.map(({ headers }) => String(headers['x-api-key']))
    expect(new Set(keys).size).toBe(2)
    expect(keys.every((key) => /^key-\d+$/.test(key))).toBe(true)
    const about = { mcpUrl: server.url, secretHeaderKeys: ['x-api-key'] }
    expect(asked[0]).toEqual(['x-api-key', about, scope])
  })

  test('cause an error with their names if some are missing, and nothing is sent', async () => {
    await using server = await startLegacyServer()
    const known: Record<string, string> = { 'x-user': 's3cret-user' }
    const config = { url: server.url, secretHeaderKeys: ['x-user', 'x-key', 'x-pin'] }
    await using client = new McpClient(config, { secrets: (key) => known[key] })
    const observed = recordEvents(client)
    const error = await rejectionOf(client.callTool('counter_add'))
    expect(error).toMatchObject({
      code: 'CONFIG',
      outcome: 'not-executed',
      message: expect.stringContaining(
        'secretHeaderKeys: the option "secrets" has no value for x-key, x-pin',
      ),
    })
    expect(server.received).toEqual([])
    expect(inspect({ error, observed }, { depth: 20 })).not.toContain('s3cret-user')
    Object.assign(known, { 'x-key': 'k', 'x-pin': '1' })
    await client.callTool('counter_add')
    delete known['x-pin']
    expect(await rejectionOf(client.callTool('counter_add'))).toMatchObject({
      code: 'CONFIG',
      tool: 'counter_add',
      outcome: 'not-executed',
      message: expect.stringContaining('has no value for x-pin'),
    })
    expect(server.executions('counter_add')).toBe(1)
    known['x-pin'] = '1' // for the DELETE at the end
  })

  test('appear in no error, event, log or status, even if the server repeats them', async () => {
    await using setting = await startSetting()
    const { proxy } = setting
    const logged: unknown[] = []
    const log = (fields: object, message: string): void => void logged.push([fields, message])
    await using client = new McpClient(
      { url: proxy.url, secretHeaderKeys: ['authorization'] },
      {
        secrets: () => 'Bearer s3cret-token',
        logger: { debug: log, info: log, warn: log, error: log },
      },
    )
    const observed = recordEvents(client)
    await client.ping()
    proxy.inject({
      match: ({ toolName }) => toolName === 'echo',
      action: { status: 403, body: 'The token s3cret-token has expired' },
    })
    const error = await rejectionOf(client.callTool('echo'))
    expect(String(error)).toContain('The token [removed] has expired')
    const everything = inspect({ error, observed, logged, status: client.status() }, { depth: 20 })
    expect(everything).not.toContain('s3cret-token')
  })

  test('work in an mcp.json; without a source they cause the same error as in a config', async () => {
    await using server = await startLegacyServer({ listenStream: 'refuse-405' })
    await using folder = await makeTemporaryFolder()
    const path = join(folder.path, 'mcp.json')
    const shop = { url: server.url, secretHeaderKeys: ['x-api-key'] }
    await writeFile(path, JSON.stringify({ mcpServers: { shop } }))
    const directory = mcpJsonDirectory(path)
    const secrets = (key: string, { slug }: McpServer): string => `${slug}/${key}`
    await using client = new McpClient({ slug: 'shop' }, { directory, secrets })
    await client.ping()
    expect(server.received.at(-1)?.headers).toMatchObject({ 'x-api-key': 'shop/x-api-key' })
    await using without = new McpClient({ slug: 'shop' }, { directory })
    const what = 'secretHeaderKeys needs the option "secrets"'
    expect(await rejectionOf(without.ping())).toMatchObject({
      code: 'CONFIG',
      message: expect.stringContaining(what),
    })
    expect(() => new McpClient(shop)).toThrow(what)
  })

  test('are never given to a directory in the network', async () => {
    await using server = await startLegacyServer({ listenStream: 'refuse-405' })
    await using asked = await startTestServer((_request, response) => {
      response.end(JSON.stringify({ mcpUrl: server.url, secretHeaderKeys: ['x-api-key'] }))
    })
    const directory = httpDirectory({ baseUrl: asked.url, folderKey: 'f-1' })
    await using client = new McpClient({ slug: 'shop' }, { directory, secrets: () => 's3cret' })
    await client.ping()
    expect(server.received.every(({ headers }) => !('x-api-key' in headers))).toBe(true)
  })
})
