import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { McpClient, StaticServerDirectory } from '@x/mcp-client'
import { startLegacyServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { SessionInfoDebugStateFactory } from '../src/index.ts'
import { MemoryDebugStateStore, createDebugStateServer } from '../src/server/index.ts'
import { plainService, startScriptedService } from './scripted-service.ts'

/** The key of an agent in another language: `urllib.parse.quote('mcpsession::shop', safe='')`. */
const PATH = '/agenthub_/design/debugstate/agent/mcpsession%3A%3Ashop'

test('keeps the session of a stock client whose id is stored', async () => {
  await using mcp = await startLegacyServer()
  await using service = createDebugStateServer({ store: new MemoryDebugStateStore() })
  const baseUrl = await service.listen()
  const transport = new StreamableHTTPClientTransport(new URL(mcp.url))
  const stock = new Client({ name: 'stock', version: '1.0.0' })
  await stock.connect(transport)
  await stock.callTool({ name: 'counter_add' })
  await fetch(baseUrl + PATH, { method: 'PUT', body: String(transport.sessionId) })

  const directory = new StaticServerDirectory({ shop: mcp.url })
  for (const count of [2, 4]) {
    await using sessions = new SessionInfoDebugStateFactory({ baseUrl, agentId: 'agent' })
    const options = { directory, sessionInfoFactory: sessions }
    await using client = new McpClient({ slug: 'shop' }, options)
    expect((await client.callTool('counter_add')).structuredContent).toEqual({ count })
    expect(await client.getSessionId()).toBe(transport.sessionId)
    const { structuredContent } = await stock.callTool({ name: 'counter_add' })
    expect(structuredContent).toEqual({ count: count + 1 })
  }
  expect(await (await fetch(baseUrl + PATH)).json()).toMatchObject({
    sessionId: transport.sessionId,
  })
  expect(mcp.sessions).toEqual([transport.sessionId])
  expect([mcp.count('DELETE'), mcp.count('initialize')]).toEqual([0, 2]) // the second one was answered with "already initialized"
  await stock.close()
})

test('lets the last writer win, and no call fails', async () => {
  await using mcp = await startLegacyServer()
  const values = new Map<string, string>()
  await using service = await startScriptedService(plainService(values))
  const directory = new StaticServerDirectory({ shop: mcp.url })
  const { baseUrl } = service
  await using one = new SessionInfoDebugStateFactory({ baseUrl, agentId: 'agent' })
  await using other = new SessionInfoDebugStateFactory({ baseUrl, agentId: 'agent' })
  await using first = new McpClient({ slug: 'shop' }, { directory, sessionInfoFactory: one })
  await using second = new McpClient({ slug: 'shop' }, { directory, sessionInfoFactory: other })
  await Promise.all([first, second].map((client) => client.callTool('counter_add')))
  await Promise.all([first, second].map((client) => client.callTool('counter_add')))
  const ids = [await first.getSessionId(), await second.getSessionId()]
  await first.dispose()
  await second.dispose()
  expect(ids).toContain(JSON.parse(values.get('mcpsession::shop') ?? '').sessionId)
  expect(mcp.executions('counter_add')).toBe(4)
})

test('sends exactly these bytes', async () => {
  const received: string[] = []
  const server = createServer((socket) => {
    let request = ''
    socket.setEncoding('latin1').on('data', (part) => {
      request += String(part)
      const length = Number(/content-length: (\d+)/.exec(request)?.[1] ?? 0)
      if (!request.includes('\r\n\r\n')) return
      if (request.length < request.indexOf('\r\n\r\n') + 4 + length) return
      const stored = received.find((one) => one.startsWith('PUT'))?.split('\r\n\r\n')[1] ?? ''
      received.push(request)
      socket.write(
        request.startsWith('GET')
          ? `HTTP/1.1 200 OK\r\ncontent-length: ${stored.length}\r\n\r\n${stored}`
          : 'HTTP/1.1 204 No Content\r\n\r\n',
      )
      request = ''
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await using factory = new SessionInfoDebugStateFactory({
    baseUrl: `http://127.0.0.1:${port}/org/`,
    agentId: 'an agent',
    token: 'a-token',
  })
  const info = factory.createSession({ slug: "it's(a)*test!/ü", folderKey: 'F:1' })
  await info.setSessionId('8f14e45f-ceea-467f-a8f5-5d3a0f4b2c11')
  await info.flush()
  await info.setSessionId(undefined)
  await info.flush()
  const path =
    '/org/agenthub_/design/debugstate/an%20agent/mcpsession%3AF%3A1%3Ait%27s%28a%29%2Atest%21%2F%C3%BC'
  const [, put, , remove] = received
  expect(put?.split('\r\n')[0]).toBe(`PUT ${path} HTTP/1.1`)
  expect(put).toMatch(/\r\nauthorization: Bearer a-token\r\n/)
  expect(put).toMatch(/\r\ncontent-type: text\/plain\r\n/)
  expect(put).toMatch(/\r\ncontent-length: 36\r\n\r\n8f14e45f-ceea-467f-a8f5-5d3a0f4b2c11$/)
  expect(remove?.split('\r\n')[0]).toBe(`DELETE ${path} HTTP/1.1`)
  await factory.close()
  await new Promise((resolve) => server.close(resolve))
})
