// An MCP server with sessions that costs as little as it can, in a process of its own.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { answerTasks } from '../bench/tasks.ts'
import { isObject } from './checks.ts'
import { PROTOCOL_VERSION, TEXT, TOOL } from './protocol.ts'

const CONTENT = JSON.stringify([{ type: 'text', text: TEXT }])
const TOOLS = JSON.stringify([
  {
    name: TOOL,
    description: 'Puts things into the cart',
    inputSchema: {
      type: 'object',
      properties: { item: { type: 'string' }, count: { type: 'number' } },
      required: ['item', 'count'],
    },
  },
])

const sessions = new Set<string>()
/** How often each JSON-RPC method was posted, and each other HTTP method used. */
let counts: Record<string, number> = {}

const server = createServer((request, response) => {
  answer(request, response).catch((error: unknown) => {
    response.destroy(error instanceof Error ? error : new Error(String(error)))
  })
})
server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 })
await once(server, 'listening')

/** `port`; `counts` since they were last asked for; `forget` every session; `hang-up` on idle connections. */
answerTasks(async (task) => {
  const what = isObject(task) ? task['what'] : undefined
  if (what === 'forget') return sessions.clear()
  if (what === 'hang-up') return server.closeIdleConnections()
  if (what === 'counts') {
    const told = counts
    counts = {}
    return told
  }
  const address = server.address()
  return typeof address === 'object' ? address?.port : undefined
})

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method: httpMethod = '' } = request
  if (httpMethod !== 'POST') {
    count(httpMethod)
    response.writeHead(httpMethod === 'DELETE' ? 200 : 405).end()
    return
  }
  const message: unknown = JSON.parse(await bodyOf(request))
  const { id, method } = isObject(message) ? message : {}
  count(String(method))
  if (method === 'initialize') {
    const sessionId = randomUUID()
    sessions.add(sessionId)
    const serverInfo = { name: 'bench', version: '1.0.0' }
    const result = { protocolVersion: PROTOCOL_VERSION, capabilities: { tools: {} }, serverInfo }
    response.setHeader('mcp-session-id', sessionId)
    return sendJson(
      response,
      `{"jsonrpc":"2.0","id":${String(id)},"result":${JSON.stringify(result)}}`,
    )
  }
  const sessionId = request.headers['mcp-session-id']
  if (method !== 'server/discover' && !(typeof sessionId === 'string' && sessions.has(sessionId))) {
    response.statusCode = 404
    const error = '{"code":-32001,"message":"Session not found"}'
    return sendJson(response, `{"jsonrpc":"2.0","id":null,"error":${error}}`)
  }
  if (typeof id !== 'number' && typeof id !== 'string') {
    response.writeHead(202).end()
    return
  }
  const start = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},`
  if (method === 'tools/call') {
    const text = `${start}"result":{"content":${CONTENT}}}`
    if (request.url === '/json') return sendJson(response, text)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(`event: message\ndata: ${text}\n\n`)
  } else if (method === 'tools/list') {
    sendJson(response, `${start}"result":{"tools":${TOOLS}}}`)
  } else {
    sendJson(response, `${start}"error":{"code":-32601,"message":"Method not found"}}`)
  }
}

function count(what: string): void {
  counts[what] = (counts[what] ?? 0) + 1
}

/** Cheaper than reading the request as a stream. */
function bodyOf(request: IncomingMessage): Promise<string> {
  return new Promise((resolve, reject) => {
    let body = ''
    request.setEncoding('utf8')
    request.on('data', (chunk: string) => (body += chunk))
    request.once('end', () => resolve(body)).once('error', reject)
  })
}

function sendJson(response: ServerResponse, body: string): void {
  response.setHeader('content-type', 'application/json')
  response.setHeader('content-length', Buffer.byteLength(body))
  response.end(body)
}
