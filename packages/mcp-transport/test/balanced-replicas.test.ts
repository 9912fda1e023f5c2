// A balancer that sends requests with its cookie to the replica that set it (mcp-remote#168).
import { json } from 'node:stream/consumers'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { startTestServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { StreamableHttpTransport } from '../src/index.ts'
import type { ExchangeEvent } from '../src/index.ts'

interface Received {
  readonly method: string
  readonly cookie: string | undefined
}

async function startBalanced(received: Received[]) {
  const owners = new Map<string, string>()
  return startTestServer(async (request, response) => {
    const { cookie } = request.headers
    const session = String(request.headers['mcp-session-id'] ?? '')
    const message = request.method === 'POST' ? await json(request) : {}
    const { id, method = request.method ?? '' } = message as { id?: number; method?: string }
    received.push({ method, cookie })
    if (method === 'server/discover') return void response.writeHead(404).end()
    if (method === 'initialize') {
      const [own, replica] = [`session-${owners.size}`, `replica-${owners.size}`]
      owners.set(own, replica)
      response.setHeader('mcp-session-id', own)
      response.setHeader('set-cookie', [`AWSALB=${replica}; Path=/`, 'other=1; Path=/elsewhere'])
    } else if (cookie !== `AWSALB=${owners.get(session)}`) {
      return void response.writeHead(404).end()
    }
    if (id === undefined) return void response.writeHead(request.method === 'GET' ? 405 : 202).end()
    const result =
      method === 'initialize'
        ? {
            protocolVersion: '2025-11-25',
            capabilities: { tools: {} },
            serverInfo: { name: 'b', version: '1' },
          }
        : { tools: [] }
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
  })
}

async function listTools(url: string, headers: Record<string, string>, events: ExchangeEvent[]) {
  const onExchange = (event: ExchangeEvent): void => void events.push(event)
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(new StreamableHttpTransport(url, { headers, onExchange }))
  const { tools } = await client.listTools()
  await client.close()
  return tools
}

test('the cookie of a session is sent with its requests, and is in no event', async () => {
  const received: Received[] = []
  const events: ExchangeEvent[] = []
  await using server = await startBalanced(received)
  await Promise.all([1, 2].map(() => listTools(server.url, {}, events)))
  const lists = received.filter(({ method }) => method === 'tools/list')
  expect(new Set(lists.map(({ cookie }) => cookie))).toEqual(
    new Set(['AWSALB=replica-0', 'AWSALB=replica-1']),
  )
  expect(JSON.stringify(events)).not.toContain('replica-')
})

test('a cookie of the user is sent in its place', async () => {
  const received: Received[] = []
  await using server = await startBalanced(received)
  await listTools(server.url, { cookie: 'AWSALB=replica-0' }, [])
  expect(new Set(received.map(({ cookie }) => cookie))).toEqual(new Set(['AWSALB=replica-0']))
})
