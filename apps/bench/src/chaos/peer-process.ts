// An agent process that uses a client of another project: the one that `kind` in its AgentSpec names.
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
import { answerIn, ClientCache, serveAgent } from '@x/chaos/agent'
import type { AgentClient, AgentSpec } from '@x/chaos/agent'
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
  /** Resolves to the result that users of the client get, and rejects with the error that they get. */
  readonly call: (tool: string, args: { readonly key: string }, limit: Limit) => Promise<unknown>
  readonly close: () => Promise<unknown>
  /** True if the documentation says to connect again after this error. The call is then repeated once. */
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
 * Opens a new client after status 404, which asks a client to start a new session. The documentation
 * recommends this for no other status, and advises against it for 400.
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
        // The values of the documentation. The option reopens streams, not sessions.
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
 * Opens a new client after `onSessionExpired`, as the documentation recommends. `maxRetries` is an option
 * for transient failures and tools that may run twice. It is 0 by default.
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
    onUncaughtError: () => {}, // gets errors of the listening stream, which fail no call
    maxRetries,
  })
  return {
    call: (name, args, options) => client.callTool({ name, arguments: args, options }),
    close: () => client.close(),
    isLost: (error) => isExpired && MCPClientError.isInstance(error) && error.statusCode === 404,
  }
}

let mastraClients = 0

/** Connects when it lists the tools, and again before its built-in retry of a failed call. */
function mastra({ url, headers, timeoutMs }: Target): Connection & { client: MastraClient } {
  const client = new MastraClient({
    id: `chaos-${++mastraClients}`, // without it, Mastra refuses a second client with the same options
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
        if (listed === listing) listed = undefined // the next call lists the tools again
        throw new Error(`The list has no tool "${name}"`)
      }
      return tool.execute({ ...args }, { abortSignal: signal, observe: noopObserve })
    },
    close: () => client.disconnect(),
  }
}

/**
 * Calls `reconnectServer()` after an answer that refuses the session. New calls wait until it has ended.
 * After other failures the session still exists, and `reconnectServer()` would end the calls in flight.
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

/** All options have their defaults, unless a comment gives a reason. */
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

/** Opens a connection for each server and principal at the first call. */
function openPeer({ kind, servers, deadlineMs }: AgentSpec): AgentClient {
  const connect = kinds[kind]
  if (connect === undefined) throw new TypeError(`Unknown kind of agent "${kind}"`)
  const connections = new ClientCache<Connection>()
  /** Calls in flight. */
  const running = new WeakMap<Connection, Set<Promise<unknown>>>()
  return {
    async call({ server, principal, tool, key, deadlineMs: callMs }, { signal }) {
      const endsAt = performance.now() + callMs
      const id = `${server} ${principal}`
      const headers = { authorization: `Bearer ${principal}` }
      const target = { url: servers[server] ?? '', headers, timeoutMs: deadlineMs }
      for (let isRetry = false; ; isRetry = true) {
        const opening = connections.get(id, async () => connect(target))
        const connection = await opening // a rejection is a failed call
        const timeout = Math.max(1, Math.ceil(endsAt - performance.now()))
        const calls = running.get(connection) ?? new Set()
        running.set(connection, calls)
        const result = connection.call(tool, { key }, { timeout, signal })
        calls.add(result)
        try {
          return checkResult(await result)
        } catch (error) {
          if (connection.isLost?.(error) !== true) throw error
          if (connections.forget(id, opening)) void closeAfter(calls, connection)
          if (isRetry) throw error
        } finally {
          calls.delete(result)
        }
      }
    },
    close: () => connections.closeAll((connection) => connection.close()),
  }
}

/** Closes a lost connection when the calls that still run on it have ended. */
async function closeAfter(
  calls: Iterable<Promise<unknown>>,
  connection: Connection,
): Promise<void> {
  await Promise.allSettled(calls)
  await connection.close().catch(() => {})
}

/**
 * Returns the result of a successful call. Some clients return an error as a result, so a result without
 * the answer of the tool is a failure, too.
 */
function checkResult(result: unknown): unknown {
  const isError = isObject(result) && result['isError'] === true
  if (!isError && answerIn(result) !== undefined) return result
  throw new Error(`The result is an error: ${JSON.stringify(result)}`)
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

process.env['MCP_USE_ANONYMIZED_TELEMETRY'] = 'false' // mcp-use must not report this run
serveAgent(openPeer)
