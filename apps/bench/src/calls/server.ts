// A small and fast MCP server, in a process of its own. Its paths: `/json` and `/sse` have sessions and answer
// with JSON or an event stream; `/modern/json` and `/modern/sse` do the same without sessions. On `/modern/tasks`,
// each call becomes a task that does not end.
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { listen, serve } from '../measure/worker.ts'
import { DEFINITION, MODERN_VERSION, PROTOCOL_VERSION, TEXT } from './messages.ts'

const CONTENT = JSON.stringify([{ type: 'text', text: TEXT }])
const DISCOVERED = { supportedVersions: [MODERN_VERSION], capabilities: { tools: {} } }
const INITIALIZED = {
  protocolVersion: PROTOCOL_VERSION,
  capabilities: { tools: {} },
  serverInfo: { name: 'bench', version: '1.0.0' },
}

const TASK = {
  status: 'working',
  createdAt: new Date().toISOString(),
  lastUpdatedAt: new Date().toISOString(),
  ttlMs: 3_600_000,
  pollIntervalMs: 1000,
}

const sessions = new Set<string>()
/** Number of requests by JSON-RPC method, or by HTTP method where it is not POST. */
let counts: Record<string, number> = {}

const server = createServer((request, response) => {
  answer(request, response).catch((error: unknown) => {
    response.destroy(error instanceof Error ? error : new Error(String(error)))
  })
})
const port = await listen(server)

const api = {
  port: () => port,
  /** Makes all session ids unknown. */
  forgetSessions: () => sessions.clear(),
  closeIdleConnections: () => server.closeIdleConnections(),
  /** Requests since the last call of this function. */
  takeCounts() {
    const taken = counts
    counts = {}
    return taken
  },
}
export type ServerApi = typeof api
serve(api)

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method: httpMethod = '', url = '' } = request
  if (httpMethod !== 'POST') {
    count(httpMethod)
    response.writeHead(httpMethod === 'DELETE' ? 200 : 405).end()
    return
  }
  const isModern = url.startsWith('/modern/')
  const { id, method } = JSON.parse(await bodyOf(request)) as { id?: unknown; method?: string }
  count(String(method))
  const start = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},`
  const result = (value: object): string => `${start}"result":${JSON.stringify(value)}}`
  if (method === 'initialize') {
    const sessionId = randomUUID()
    sessions.add(sessionId)
    response.setHeader('mcp-session-id', sessionId)
    return sendJson(response, result(INITIALIZED))
  }
  if (method === 'server/discover' && isModern) return sendJson(response, result(DISCOVERED))
  const sessionId = String(request.headers['mcp-session-id'])
  if (!isModern && method !== 'server/discover' && !sessions.has(sessionId)) {
    response.statusCode = 404
    const error = '{"code":-32001,"message":"Session not found"}'
    return sendJson(response, `{"jsonrpc":"2.0","id":null,"error":${error}}`)
  }
  if (id === undefined) {
    response.writeHead(202).end()
  } else if (url === '/modern/tasks' && (method === 'tools/call' || method === 'tasks/get')) {
    const isNew = method === 'tools/call'
    const taskId = isNew ? randomUUID() : String(request.headers['mcp-name'])
    sendJson(response, result({ ...TASK, taskId, resultType: isNew ? 'task' : 'complete' }))
  } else if (method === 'tools/call') {
    const text = `${start}"result":{"content":${CONTENT}}}`
    if (url.endsWith('/json')) return sendJson(response, text)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(`event: message\ndata: ${text}\n\n`)
  } else if (method === 'tools/list') {
    sendJson(response, result({ tools: [DEFINITION] }))
  } else {
    sendJson(response, `${start}"error":{"code":-32601,"message":"Method not found"}}`)
  }
}

function count(method: string): void {
  counts[method] = (counts[method] ?? 0) + 1
}

/** Costs less than reading the request as a stream. */
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
