// An agent process of the comparison that uses a client of others: `kind` in its AgentSpec says which.
import { createMCPClient, MCPClientError } from '@ai-sdk/mcp'
import { MultiServerMCPClient } from '@langchain/mcp-adapters'
import { noopObserve } from '@mastra/core/tools'
import { MCPClient as MastraClient } from '@mastra/mcp'
import {
  Client as ClientV2,
  SdkHttpError,
  StreamableHTTPClientTransport as HttpV2,
} from '@modelcontextprotocol/client'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import {
  StreamableHTTPClientTransport as HttpV1,
  StreamableHTTPError,
} from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { serveAgent } from '@x/chaos/agent'
import type { AgentClient, CallReport } from '@x/chaos/agent'
import type { AgentSpec } from '@x/chaos/protocol'
import { MCPClient as McpUseClient } from 'mcp-use/client'

interface Target {
  readonly url: string
  readonly headers: { readonly authorization: string }
  /** Limit for connecting, and for calls of clients that have no option per call. */
  readonly timeoutMs: number
}

interface Limit {
  readonly timeout: number
  readonly signal: AbortSignal
}

interface Connection {
  /** Resolves to what a user of the client gets, rejects with the error that a user gets. */
  readonly call: (tool: string, args: { readonly key: string }, limit: Limit) => Promise<unknown>
  readonly close: () => Promise<unknown>
  /** True if the documentation says to connect anew after this error. The call is then made once more. */
  readonly isLost?: (error: unknown) => boolean
}

type Connect = (target: Target) => Connection | Promise<Connection>

const INFO = { name: 'chaos', version: '1.0.0' }

async function sdkV1({ url, headers, timeoutMs }: Target): Promise<Connection> {
  const client = new ClientV1(INFO)
  const transport = new HttpV1(new URL(url), { requestInit: { headers } })
  await client.connect(transport, { timeout: timeoutMs })
  return {
    call: (name, args, limit) => client.callTool({ name, arguments: args }, undefined, limit),
    close: () => closeSdk(client, transport),
  }
}

async function sdkV2(
  { url, headers, timeoutMs }: Target,
  mode: 'legacy' | 'auto' = 'legacy', // its default
): Promise<Connection> {
  const client = new ClientV2(INFO, { versionNegotiation: { mode } })
  const transport = new HttpV2(new URL(url), { requestInit: { headers } })
  await client.connect(transport, { timeout: timeoutMs })
  return {
    call: (name, args, limit) => client.callTool({ name, arguments: args }, limit),
    close: () => closeSdk(client, transport),
  }
}

/**
 * Ends the session first, which `close()` leaves on the server.
 * https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management, item 5
 */
async function closeSdk(client: ClientV1 | ClientV2, transport: HttpV1 | HttpV2): Promise<void> {
  await transport.terminateSession().catch(() => {})
  await client.close()
}

/**
 * A new client after the answer 404, which tells a client to start a new session. The documentation says
 * so of no other answer; of 400 it says the contrary.
 * https://github.com/modelcontextprotocol/typescript-sdk/blob/main/docs/serving/sessions-state-scaling.md
 */
function newAfter404(connect: Connect): Connect {
  return async (target) => ({ ...(await connect(target)), isLost: isNotFound })
}

function isNotFound(error: unknown): boolean {
  if (error instanceof StreamableHTTPError) return error.code === 404
  return error instanceof SdkHttpError && error.status === 404
}

async function adapters({ url, headers, timeoutMs }: Target): Promise<Connection> {
  const client = new MultiServerMCPClient({
    mcpServers: {
      chaos: {
        transport: 'http',
        url,
        headers,
        // The values of the example. With HTTP the option is for streams: no session is opened again.
        // https://github.com/langchain-ai/langchainjs/blob/main/libs/langchain-mcp-adapters/README.md
        reconnect: { enabled: true, maxAttempts: 5, delayMs: 2000 },
        defaultToolTimeout: timeoutMs,
      },
    },
  })
  const tools = await client.getTools()
  return {
    async call(name, args, { timeout, signal }) {
      const tool = tools.find((one) => one.name === name)
      if (tool === undefined) throw new Error(`The list has no tool "${name}"`)
      return tool.invoke({ ...args }, { timeout, signal })
    },
    close: () => client.close(),
  }
}

/**
 * "Retry by creating a fresh client", the documentation says of `onSessionExpired`. `maxRetries` is an
 * option for transient failures, off by default, for tools that may run twice.
 * https://ai-sdk.dev/docs/ai-sdk-core/mcp-tools
 */
async function aiSdk(
  { url, headers, timeoutMs }: Target,
  maxRetries: number = 0,
): Promise<Connection> {
  let isExpired = false
  const client = await createMCPClient({
    transport: { type: 'http', url, headers, onSessionExpired: () => (isExpired = true) },
    initializationOptions: { timeout: timeoutMs },
    onUncaughtError: () => {}, // of the listening stream
    maxRetries,
  })
  return {
    call: (name, args, options) => client.callTool({ name, arguments: args, options }),
    close: () => client.close(),
    isLost: (error) => isExpired && MCPClientError.isInstance(error) && error.statusCode === 404,
  }
}

let mastraClients = 0

/** Connects by itself at the first list, and again before the one retry that is built in. */
function mastra({ url, headers, timeoutMs }: Target): Connection & { client: MastraClient } {
  const client = new MastraClient({
    id: `chaos-${++mastraClients}`, // else two clients with the same options are refused
    timeout: timeoutMs,
    servers: { chaos: { url: new URL(url), requestInit: { headers }, connectTimeout: timeoutMs } },
  })
  let listed: ReturnType<MastraClient['listTools']> | undefined
  return {
    client,
    async call(name, args, { signal }) {
      const listing = (listed ??= client.listTools())
      const tool = (await listing.catch(() => undefined))?.[`chaos_${name}`]
      if (tool?.execute === undefined) {
        if (listed === listing) listed = undefined // the next call asks again
        throw new Error(`The list has no tool "${name}"`)
      }
      return tool.execute({ ...args }, { abortSignal: signal, observe: noopObserve })
    },
    close: () => client.disconnect(),
  }
}

/**
 * Calls `reconnectServer()` after an answer that refuses the session. New calls wait for it. After other
 * failures the session is still good, and reconnecting would end the calls in flight.
 * https://mastra.ai/reference/tools/mcp-client
 */
function mastraThatReconnects(target: Target): Connection {
  const { client, call, close } = mastra(target)
  let reconnecting: Promise<void> | undefined
  return {
    close,
    async call(tool, args, limit) {
      await reconnecting
      try {
        return await call(tool, args, limit)
      } catch (error) {
        if (isObject(error) && (error['status'] === 404 || error['status'] === 400)) {
          reconnecting ??= client
            .reconnectServer('chaos')
            .catch(() => {})
            .finally(() => (reconnecting = undefined))
        }
        throw error
      }
    },
  }
}

async function mcpUse({ url, headers }: Target): Promise<Connection> {
  const client = new McpUseClient({ mcpServers: { chaos: { url, headers } } })
  const session = await client.createSession('chaos')
  return {
    call: (name, args, limit) => session.callTool(name, { ...args }, limit),
    close: () => client.closeAllSessions(),
  }
}

/** Options are the defaults of the client unless a comment says why not. */
const kinds: Readonly<Record<string, Connect>> = {
  'sdk-v1': sdkV1,
  'sdk-v1-404': newAfter404(sdkV1),
  'sdk-v2': (target) => sdkV2(target),
  'sdk-v2-404': newAfter404((target) => sdkV2(target)),
  'sdk-v2-auto': (target) => sdkV2(target, 'auto'),
  adapters,
  'ai-sdk': (target) => aiSdk(target),
  'ai-sdk-retries': (target) => aiSdk(target, 2),
  mastra,
  'mastra-reconnects': mastraThatReconnects,
  'mcp-use': mcpUse,
}

/** Opens a connection to each server at the first call. When that fails, the next call tries again. */
function openPeer({ kind = '', servers, deadlineMs }: AgentSpec, principal: string): AgentClient {
  const connect = kinds[kind]
  if (connect === undefined) throw new TypeError(`Unknown kind of agent "${kind}"`)
  const opened = new Map<string, Promise<Connection>>()
  /** Calls in flight. */
  const running = new WeakMap<Connection, Set<Promise<unknown>>>()

  const forget = (server: string, opening: Promise<Connection>): boolean =>
    opened.get(server) === opening && opened.delete(server)

  const connectTo = (server: string): Promise<Connection> => {
    const headers = { authorization: `Bearer ${principal}` }
    const target = { url: servers[server] ?? '', headers, timeoutMs: deadlineMs }
    const opening = Promise.resolve(connect(target))
    opened.set(server, opening)
    opening.catch(() => forget(server, opening))
    return opening
  }

  return {
    async call(call, signal) {
      const endsAt = performance.now() + call.deadlineMs
      for (let isRetry = false; ; isRetry = true) {
        const opening = opened.get(call.server) ?? connectTo(call.server)
        const connection = await opening // a rejection is a failed call
        const timeout = Math.max(1, Math.ceil(endsAt - performance.now()))
        const calls = running.get(connection) ?? new Set()
        running.set(connection, calls)
        const result = connection.call(call.tool, { key: call.key }, { timeout, signal })
        calls.add(result)
        try {
          return reportOf(await result)
        } catch (error) {
          if (connection.isLost?.(error) !== true) throw error
          if (forget(call.server, opening)) void closeAfter(calls, connection)
          if (isRetry) throw error
        } finally {
          calls.delete(result)
        }
      }
    },
    async close() {
      const connections = [...opened.values()]
      opened.clear()
      await Promise.allSettled(connections.map(async (one) => (await one).close()))
    },
  }
}

/** Lets calls that still run on a lost connection end by themselves. */
async function closeAfter(
  calls: Iterable<Promise<unknown>>,
  connection: Connection,
): Promise<void> {
  await Promise.allSettled(calls)
  await connection.close().catch(() => {})
}

/** A result without the answer of the tool is an error in other words, so it counts as `failed`. */
function reportOf(result: unknown): CallReport {
  const answer = isObject(result) && result['isError'] === true ? undefined : answerIn(result)
  if (answer !== undefined) return { outcome: 'executed', progressKeys: [], answer }
  return { outcome: 'failed', progressKeys: [], error: `Result: ${JSON.stringify(result)}` }
}

/** Finds `{ key, principal }` in structured content, in a content block, or in the text of a tool. */
function answerIn(value: unknown): CallReport['answer'] {
  if (typeof value === 'string') return value.startsWith('{') ? answerIn(parsed(value)) : undefined
  if (Array.isArray(value)) return value.map(answerIn).find((found) => found !== undefined)
  if (!isObject(value)) return undefined
  const { key, principal, structuredContent, content, text } = value
  if (typeof key === 'string' && typeof principal === 'string') return { key, principal }
  return answerIn(structuredContent) ?? answerIn(content) ?? answerIn(text)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

process.env['MCP_USE_ANONYMIZED_TELEMETRY'] = 'false' // else mcp-use reports that it is used
serveAgent(openPeer)
