import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { McpClient } from '@x/mcp-client'
import { freePort, startLegacyServer, startTestServer } from '@x/mcp-testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startBasketServer } from '../servers/basket-server.ts'
import { readInputs, serversFrom } from './inputs.ts'

const SAMPLE = new URL('../../agent.json', import.meta.url)

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'demo-inputs-'))
})
afterAll(() => rm(folder, { recursive: true }))

async function written(name: string, content: unknown): Promise<string> {
  const file = join(folder, name)
  await writeFile(file, typeof content === 'string' ? content : JSON.stringify(content))
  return file
}

async function readWith(files: { agent?: unknown; servers?: unknown }) {
  return readInputs({
    agent: files.agent === undefined ? undefined : await written('agent.json', files.agent),
    servers: files.servers === undefined ? undefined : await written('servers.json', files.servers),
    folder,
  })
}

test('without files, the servers of the sample are used', async () => {
  const { servers, env } = await readWith({})
  expect(servers.map(({ name }) => name)).toEqual(['basket', 'everything'])
  expect(env).toEqual({})
})

test('a plain map and the file of desktop clients mean the same', () => {
  const expected = { basket: 'http://shop.example/mcp' }
  expect(serversFrom(expected, 'servers.json')).toEqual(expected)
  expect(serversFrom({ mcpServers: { basket: { url: expected.basket } } }, 'mcp.json')).toEqual(
    expected,
  )
})

test.each([
  [[], 'servers.json: must be an object of server name → URL'],
  [{ shop: 3 }, 'servers.json: shop: must be an http: URL'],
  [{ shop: 'ftp://shop.example' }, 'servers.json: shop: must be an http: URL'],
  [{ mcpServers: { shop: { command: 'x' } } }, 'servers.json: shop: must be an http: URL'],
])('%j is refused, with the file and the field', (value, message) => {
  expect(() => serversFrom(value, 'servers.json')).toThrow(message)
})

test('a server of the user is used in place of that of the sample, and forgets its sessions', async () => {
  await using server = await startBasketServer()
  const { servers } = await readWith({ servers: { basket: server.url } })
  await using basket = await servers[0]?.start()
  await using client = new McpClient({ url: basket?.url ?? '' })
  await client.callTool('basket_add', { item: 'fig' })
  basket?.forgetSessions?.()
  await expect(client.callTool('basket_add', { item: 'fig' })).resolves.toMatchObject({
    structuredContent: { items: [{ item: 'fig', quantity: 1 }] },
  })
})

test('a server that only an agent of the user needs is added to the mcp.json', async () => {
  await using server = await startLegacyServer()
  const { env } = await readWith({ servers: { hotel: server.url } })
  const { mcpServers } = JSON.parse(await readFile(env['MCP_FILE'] ?? '', 'utf8'))
  expect(mcpServers).toMatchObject({ hotel: { url: server.url }, basket: {}, gateway: {} })
})

describe('refuses, with a message that names the file and the place,', () => {
  test('an agent.json that is missing, no JSON, or does not fit its schema', async () => {
    const missing = readInputs({ agent: join(folder, 'none.json'), servers: undefined, folder })
    await expect(missing).rejects.toThrow(/none\.json: cannot be read/)
    await expect(readWith({ agent: 'nonsense' })).rejects.toThrow(/agent\.json: is not JSON/)
    const resources = [{ $resourceType: 'mcp', name: 'Shop', slug: 'shop', isEnabled: 'yes' }]
    await expect(readWith({ agent: { resources } })).rejects.toThrow(
      /agent\.json.*\$\.resources\[0\]\.isEnabled.*expected boolean/s,
    )
  })

  test('an unknown slug, and a tool that is missing', async () => {
    const sample = await readFile(SAMPLE, 'utf8')
    await expect(readWith({ agent: sample.replace('"basket"', '"baskett"') })).rejects.toThrow(
      /agent\.json: no server is known by the slug "baskett" \(known: basket, everything, .*--servers/,
    )
    await expect(
      readWith({ agent: sample.replace('"basket_show"', '"basket_look"') }),
    ).rejects.toThrow(/agent\.json: the demo calls the tool "basket_show" of the server "basket"/)
  })

  test('a server that does not run, that answers HTML, or that lacks a tool', async () => {
    const url = `http://127.0.0.1:${await freePort()}/mcp`
    await expect(readWith({ servers: { basket: url } })).rejects.toThrow(
      /Server "basket" cannot be used: .*ECONNREFUSED.*start it/s,
    )
    await using html = await startTestServer((_request, response) => {
      response.setHeader('content-type', 'text/html').end('<html><body>Welcome</body></html>')
    })
    await expect(readWith({ servers: { basket: html.url } })).rejects.toThrow(/"basket".*HTML/s)
    await using other = await startLegacyServer()
    await expect(readWith({ servers: { basket: other.url } })).rejects.toThrow(
      /Server "basket" at http.* has no tool "basket_add"/,
    )
  })
})
