import { text } from 'node:stream/consumers'
import { startTestServer } from '@x/mcp-testing'

interface SessionServer extends AsyncDisposable {
  readonly url: string
  /** Number of tool calls that it got. */
  calls(): number
  /** Breaks the connection of the next tool call, and calls back. */
  breakNext(then: () => void): void
}

/** A server of 2025-11-25 that may advertise keys as an experimental capability. It knows only its own session. */
export async function startSessionServer(honoursKeys: boolean): Promise<SessionServer> {
  const session = Math.random().toString(36).slice(2)
  let calls = 0
  let broken: (() => void) | undefined
  const server = await startTestServer(async (request, response) => {
    const body = await text(request)
    const message = (body === '' ? {} : JSON.parse(body)) as { id?: number; method?: string }
    const send = (result: object): void => {
      response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': session })
      response.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result }))
    }
    if (message.method === 'initialize') {
      const key = 'io.github.x-mcp/idempotency'
      const experimental = honoursKeys ? { [key]: { retentionMs: 60_000, inFlight: 'join' } } : {}
      const capabilities = { tools: {}, experimental }
      const serverInfo = { name: 's', version: '1' }
      return send({ protocolVersion: '2025-11-25', capabilities, serverInfo })
    }
    if (message.method === 'notifications/initialized') return void response.writeHead(202).end()
    if (request.method !== 'POST' || message.method === 'server/discover') {
      return void response.writeHead(405).end()
    }
    if (request.headers['mcp-session-id'] !== session) return void response.writeHead(404).end()
    if (message.method === 'ping') return send({})
    calls++
    if (broken === undefined) return send({ content: [{ type: 'text', text: 'paid' }] })
    broken()
    broken = undefined
    response.destroy()
  }, '/mcp')
  return {
    url: server.url,
    calls: () => calls,
    breakNext: (then: () => void) => {
      broken = then
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}
