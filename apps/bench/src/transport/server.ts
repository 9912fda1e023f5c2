// An MCP server that costs as little as it can, in a process of its own.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { answerTasks } from '../bench/tasks.ts'
import {
  EVENTS,
  isObject,
  MIB_TEXT,
  MODERN_VERSION,
  notificationOf,
  PROTOCOL_VERSION,
  SESSION_ID,
  TEXT,
} from './messages.ts'

const JSON_TYPE = { 'content-type': 'application/json', 'mcp-session-id': SESSION_ID }
const SSE_TYPE = { 'content-type': 'text/event-stream', 'mcp-session-id': SESSION_ID }
const EVENTS_PER_WRITE = 250

const TEXT_JSON = JSON.stringify(TEXT)
const MIB_JSON = JSON.stringify(MIB_TEXT)
const PROGRESS = Array.from({ length: EVENTS / EVENTS_PER_WRITE }, (_, block) =>
  Buffer.from(
    Array.from({ length: EVENTS_PER_WRITE }, (__, index) =>
      eventOf(JSON.stringify(notificationOf(block * EVENTS_PER_WRITE + index))),
    ).join(''),
  ),
)

let connections = 0

const server = createServer((request, response) => {
  answer(request, response).catch((error: unknown) => response.destroy(asError(error)))
})
server.on('connection', () => (connections += 1))
server.listen(0, '127.0.0.1')
await once(server, 'listening')

/** Told by the port, or by how many connections there were. */
answerTasks(async (task) => {
  const what = isObject(task) ? task['what'] : undefined
  if (what === 'connections') return connections
  const address = server.address()
  return typeof address === 'object' ? address?.port : undefined
})

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.method !== 'POST') {
    response.writeHead(request.method === 'DELETE' ? 200 : 405).end()
    return
  }
  const message: unknown = JSON.parse(await bodyOf(request))
  if (!isObject(message) || !isId(message['id'])) {
    response.writeHead(202, { 'content-type': 'text/plain' })
    response.write('Accepted, ') // more than one write makes it chunked
    response.end('thank you')
    return
  }
  const { id, method } = message
  if (method === 'server/discover') {
    const result = { supportedVersions: [MODERN_VERSION], capabilities: { tools: {} } }
    return sendJson(response, JSON.stringify({ jsonrpc: '2.0', id, result }))
  }
  if (method === 'initialize') {
    const serverInfo = { name: 'bench', version: '1.0.0' }
    const result = { protocolVersion: PROTOCOL_VERSION, capabilities: { tools: {} }, serverInfo }
    response.writeHead(200, JSON_TYPE).end(JSON.stringify({ jsonrpc: '2.0', id, result }))
    return
  }
  if (method !== 'tools/call') {
    const error = { code: -32601, message: 'Method not found' }
    return sendJson(response, JSON.stringify({ jsonrpc: '2.0', id, error }))
  }
  switch (request.url ?? '') {
    case '/json':
      return sendJson(response, answerOf(id, TEXT_JSON))
    case '/mib':
      return sendJson(response, answerOf(id, MIB_JSON))
    case '/sse':
      response.writeHead(200, SSE_TYPE).end(eventOf(answerOf(id, TEXT_JSON)))
      return
    case '/stream':
      response.writeHead(200, SSE_TYPE)
      for (const block of PROGRESS) {
        if (!response.write(block)) await once(response, 'drain')
      }
      response.end(eventOf(answerOf(id, TEXT_JSON)))
      return
    default:
      response.writeHead(404).end()
  }
}

/** Cheaper than reading the request as a stream: what the server costs is no part of any figure. */
function bodyOf(request: IncomingMessage): Promise<string> {
  return new Promise((resolve, reject) => {
    let body = ''
    request.setEncoding('utf8')
    request.on('data', (chunk: string) => (body += chunk))
    request.once('end', () => resolve(body)).once('error', reject)
  })
}

function sendJson(response: ServerResponse, body: string): void {
  response.writeHead(200, { ...JSON_TYPE, 'content-length': Buffer.byteLength(body) }).end(body)
}

/** Numbers where there are sessions, and text in the stateless revision. */
function isId(value: unknown): value is number | string {
  return typeof value === 'number' || typeof value === 'string'
}

function answerOf(id: number | string, textJson: string): string {
  return `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"content":[{"type":"text","text":${textJson}}]}}`
}

function eventOf(data: string): string {
  return `event: message\ndata: ${data}\n\n`
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}
