// The servers that the gateway is compared with. Each function loads the library of its server only.
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import type { RequestListener } from 'node:http'
import { text } from 'node:stream/consumers'
import { setImmediate } from 'node:timers/promises'
import { z } from 'zod'
import { freePort } from '@x/mcp-testing'
import { listen } from '../measure/worker.ts'
import type { PeerName } from './contender.ts'
import { echoOf, LATER_TOOL, PATH, toolNames } from './protocol.ts'

const TOOLS = 10
const DESCRIPTION = 'Repeats the message.'
const INPUT = z.object({ message: z.string() })

/** The control: parses a call, and answers with the same text as the others. It checks nothing. */
function startControl(): Promise<number> {
  return listenWith(async (request, response) => {
    const call = JSON.parse(await text(request))
    if (call.id === undefined) {
      response.writeHead(202).end()
      return
    }
    const result = {
      content: [{ type: 'text', text: echoOf(String(call.params?.arguments?.message)) }],
    }
    const body = JSON.stringify({ jsonrpc: '2.0', id: call.id, result })
    const headers = {
      'content-type': 'application/json',
      'content-length': body.length,
      'mcp-session-id': 'control',
    }
    response.writeHead(200, headers).end(body)
  })
}

/**
 * SDK v2 as its documentation shows it, with checks of Host and Origin: `createMcpHandler` for the stateless
 * revision, else a transport and a server for each session.
 */
async function startSdkV2(): Promise<number> {
  const { createMcpHandler, McpServer } = await import('@modelcontextprotocol/server')
  const node = await import('@modelcontextprotocol/node')
  const newServer = () => {
    const server = new McpServer({ name: 'sdk-v2', version: '1.0.0' })
    const tool = { description: DESCRIPTION, inputSchema: INPUT }
    for (const name of [...toolNames(TOOLS), LATER_TOOL]) {
      server.registerTool(name, tool, async ({ message }) => {
        if (name === LATER_TOOL) await setImmediate()
        return { content: [{ type: 'text', text: echoOf(message) }] }
      })
    }
    return server
  }
  const modern = node.toNodeHandler(createMcpHandler(newServer, { legacy: 'reject' }))
  const sessions = new Map<string, InstanceType<typeof node.NodeStreamableHTTPServerTransport>>()
  const isHost = node.localhostHostValidation()
  const isOrigin = node.localhostOriginValidation()
  return listenWith(async (request, response) => {
    if (!isHost(request, response) || !isOrigin(request, response)) return
    const { method, url, headers } = request
    // A server for unknown clients would have to look into the body, which costs more.
    if (headers['mcp-method'] !== undefined && method !== undefined && url !== undefined) {
      return modern(Object.assign(request, { method, url }), response)
    }
    const known = sessions.get(String(headers['mcp-session-id']))
    if (known !== undefined) return known.handleRequest(request, response)
    const transport = new node.NodeStreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (session) => void sessions.set(session, transport),
    })
    transport.onclose = () => void sessions.delete(transport.sessionId ?? '')
    await newServer().connect(transport)
    await transport.handleRequest(request, response)
  })
}

/** FastMCP for TypeScript with its defaults. It has sessions only. */
async function startFastMcp(): Promise<number> {
  const { FastMCP } = await import('fastmcp')
  const logger = { debug: noop, error: noop, info: noop, log: noop, warn: noop }
  const server = new FastMCP({ name: 'fastmcp', version: '1.0.0', logger })
  for (const name of [...toolNames(TOOLS), LATER_TOOL]) {
    server.addTool({
      name,
      description: DESCRIPTION,
      parameters: INPUT,
      execute: async ({ message }) => {
        if (name === LATER_TOOL) await setImmediate()
        return echoOf(message)
      },
    })
  }
  const port = await freePort()
  await server.start({ transportType: 'httpStream', httpStream: { port, host: '127.0.0.1' } })
  return port
}

/** `MCPServer` of Mastra with its defaults. It has the stateless revision only. */
async function startMastra(): Promise<number> {
  const { createTool } = await import('@mastra/core/tools')
  const { MCPServer } = await import('@mastra/mcp')
  const echo = (id: string) =>
    createTool({
      id,
      description: DESCRIPTION,
      inputSchema: INPUT,
      execute: async ({ message }) => echoOf(message),
    })
  const tools = Object.fromEntries(toolNames(TOOLS).map((id) => [id, echo(id)]))
  const server = new MCPServer({ id: 'mastra', name: 'mastra', version: '1.0.0', tools })
  return listenWith((req, res) => {
    const url = new URL(req.url ?? '/', 'http://127.0.0.1')
    void server.startHTTP({ url, httpPath: PATH, req, res })
  })
}

/** Each function starts a server, and returns its port. */
export const PEERS: Readonly<Record<PeerName, () => Promise<number>>> = {
  control: startControl,
  'sdk-v2': startSdkV2,
  fastmcp: startFastMcp,
  mastra: startMastra,
}

function noop(): void {}

function listenWith(listener: RequestListener): Promise<number> {
  return listen(createServer({ keepAliveTimeout: 65_000 }, listener))
}
