import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import {
  localhostHostValidation,
  localhostOriginValidation,
  NodeStreamableHTTPServerTransport,
  toNodeHandler,
} from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer, Server } from '@modelcontextprotocol/server'
import type { EventStore } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { echoOf, toolNames } from '../protocol.ts'
import { listen } from './listen.ts'

const INFO = { name: 'sdk-v2', version: '1.0.0' }
const INPUT = z.object({ message: z.string() })

export interface SdkV2Options {
  readonly tools: number
  /** Its tools answer one turn after they were called. @default false */
  readonly isLater?: boolean | undefined
  /** The low-level class with a ready list, instead of `McpServer`. */
  readonly isLow?: boolean | undefined
  /** Of each session. @default a stream that is lost cannot be taken up again */
  readonly eventStore?: (() => EventStore) | undefined
}

/**
 * SDK v2 as its documentation wires it: `createMcpHandler` with a factory for the stateless revision, a
 * transport and a server for each session for the others, the checks of Host and Origin before both.
 */
export function serveSdkV2({
  tools,
  isLater = false,
  isLow = false,
  eventStore,
}: SdkV2Options): Promise<number> {
  const names = toolNames(tools)
  const make = isLow ? () => lowServer(names) : () => mcpServer(names, isLater)
  const modern = toNodeHandler(createMcpHandler(make, { legacy: 'reject' }))
  const sessions = new Map<string, NodeStreamableHTTPServerTransport>()
  const [isHost, isOrigin] = [localhostHostValidation(), localhostOriginValidation()]
  return listen(async (request, response) => {
    if (!isHost(request, response) || !isOrigin(request, response)) return
    // The cheapest way to tell; a server for unknown clients has to look into the body as well.
    if (request.headers['mcp-method'] !== undefined && isRequest(request)) {
      return modern(request, response)
    }
    const id = request.headers['mcp-session-id']
    const known = typeof id === 'string' ? sessions.get(id) : undefined
    if (known) return known.handleRequest(request, response)
    const transport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (session) => void sessions.set(session, transport),
      ...(eventStore && { eventStore: eventStore() }),
    })
    transport.onclose = () => void sessions.delete(transport.sessionId ?? '')
    await make().connect(transport)
    await transport.handleRequest(request, response)
  })
}

/** Of a server, which always has both. */
function isRequest(
  message: IncomingMessage,
): message is IncomingMessage & { readonly method: string; readonly url: string } {
  return message.method !== undefined && message.url !== undefined
}

function mcpServer(names: readonly string[], isLater: boolean): McpServer {
  const server = new McpServer(INFO)
  for (const name of names) {
    const tool = { description: 'Says again what it was told.', inputSchema: INPUT }
    server.registerTool(name, tool, async ({ message }) => {
      if (isLater) await new Promise(setImmediate)
      return textOf(echoOf(message))
    })
  }
  return server
}

function lowServer(names: readonly string[]): Server {
  const server = new Server(INFO, { capabilities: { tools: {} } })
  server.setRequestHandler('tools/list', () => ({
    tools: names.map((name) => ({ name, inputSchema: { type: 'object' as const } })),
  }))
  server.setRequestHandler('tools/call', ({ params }) =>
    textOf(echoOf(String(params.arguments?.['message']))),
  )
  return server
}

function textOf(text: string): { content: { type: 'text'; text: string }[] } {
  return { content: [{ type: 'text', text }] }
}
