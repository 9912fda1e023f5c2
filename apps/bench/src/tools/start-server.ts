// Many MCP servers that are slow to wake, or one with many tools, each on a port of its own, in one process.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { answerTasks } from '../bench/tasks.ts'
import { isObject, numbersFrom } from '../client/checks.ts'
import { PROTOCOL_VERSION } from '../client/protocol.ts'
import { catalogueOf } from './catalogue.ts'
import { DEFINITION } from './tool-definition.ts'

/**
 * Told how long each takes to open a session, in milliseconds, and how many tools it has, if that is not
 * one; says their ports in that order.
 */
answerTasks(async (task) => {
  const { delays = [], tools } = isObject(task) ? task : {}
  const list = typeof tools === 'number' ? catalogueOf(tools) : [DEFINITION]
  const all = Array.isArray(delays) ? delays : []
  const ports = all.map((ms: unknown) => startServer({ delayMs: Number(ms), tools: list }))
  return { ports: await Promise.all(ports) }
})

interface Served {
  readonly delayMs: number
  readonly tools: readonly unknown[]
}

async function startServer(served: Served): Promise<number> {
  const server = createServer((request, response) => {
    answer(request, response, served).catch((error: unknown) => {
      response.destroy(error instanceof Error ? error : new Error(String(error)))
    })
  })
  server.listen({ port: 0, host: '127.0.0.1' })
  await once(server, 'listening')
  const address = server.address()
  return numbersFrom(address, ['port']).port
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  { delayMs, tools }: Served,
): Promise<void> {
  if (request.method !== 'POST') {
    response.writeHead(request.method === 'DELETE' ? 200 : 405).end()
    return
  }
  const message: unknown = JSON.parse(await bodyOf(request))
  const { id, method } = isObject(message) ? message : {}
  if (id === undefined) {
    response.writeHead(202).end()
    return
  }
  const reply = (body: object): void => {
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ jsonrpc: '2.0', id, ...body }))
  }
  if (method === 'initialize') {
    await delay(delayMs)
    response.setHeader('mcp-session-id', randomUUID())
    const serverInfo = { name: 'bench', version: '1.0.0' }
    reply({
      result: { protocolVersion: PROTOCOL_VERSION, capabilities: { tools: {} }, serverInfo },
    })
  } else if (method === 'tools/list') {
    reply({ result: { tools } })
  } else {
    response.statusCode = method === 'server/discover' ? 400 : 200
    reply({ error: { code: -32601, message: 'Method not found' } })
  }
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const parts = await request.setEncoding('utf8').toArray()
  return parts.join('')
}
