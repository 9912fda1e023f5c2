// An agent process that uses the clients of this repository.
import { AsyncLocalStorage } from 'node:async_hooks'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { SessionInfoDebugStateFactory } from '@x/agents-debugstate'
import { createMcpTools, McpToolError } from '@x/langchain-mcp'
import type { McpToolsServerConfig } from '@x/langchain-mcp'
import { McpClient, McpClientError, SessionInfoFactory } from '@x/mcp-client'
import { StreamableHttpTransport, TransportError } from '@x/mcp-transport'
import { answerFrom, serveAgent } from './agent.ts'
import type { AgentClient, CallReport } from './agent.ts'
import type { AgentSpec, Call, Outcome } from './protocol.ts'

/** A client of one kind. Its `call` returns the result of the tool. */
interface Caller {
  call(call: Call, options: CallOptions): Promise<object>
  close(): Promise<unknown>
}

interface CallOptions {
  readonly signal: AbortSignal
  /** Called with the key in each progress message of the call. */
  readonly onKey: (key: unknown) => void
}

interface CallerOptions {
  readonly spec: AgentSpec
  readonly factory: SessionInfoFactory
  readonly principal: string
}

/** The call ended before a request for it was made. */
class NotCalledError extends Error {}

const bearer = (principal = ''): Record<string, string> => ({
  authorization: `Bearer ${principal}`,
})
const allClosed = (clients: Iterable<{ dispose(): Promise<void> }>): Promise<unknown> =>
  Promise.all(Array.from(clients, (client) => client.dispose()))

/** An `McpClient` for each server of one principal. */
function openClients({ spec, factory, principal }: CallerOptions): Caller {
  const options = { sessionInfoFactory: factory, scope: { principal } }
  const clients = clientForEach(
    spec,
    (url) =>
      new McpClient({ url, headers: bearer(principal) }, { ...options, openTelemetry: false }),
  )
  return { call: (...call) => callTool(clients, ...call), close: () => allClosed(clients.values()) }
}

/** One `McpClient` for each server and all principals, with a scope that is read at each call. */
function openScoped({ spec, factory }: CallerOptions): Caller {
  const current = new AsyncLocalStorage<string>()
  const scope = (): { principal: string } => ({ principal: current.getStore() ?? 'nobody' })
  const options = { sessionInfoFactory: factory, scope }
  const clients = clientForEach(
    spec,
    (url) =>
      new McpClient(
        { url, headers: (call) => bearer(call.scope?.principal) },
        { ...options, openTelemetry: false },
      ),
  )
  return {
    call: (call, rest) => current.run(call.principal, () => callTool(clients, call, rest)),
    close: () => allClosed(clients.values()),
  }
}

type Clients = ReadonlyMap<string, McpClient>

function clientForEach({ servers }: AgentSpec, open: (url: string) => McpClient): Clients {
  return new Map(Object.entries(servers).map(([name, url]) => [name, open(url)]))
}

async function callTool(clients: Clients, call: Call, options: CallOptions): Promise<object> {
  const client = clients.get(call.server)
  if (!client) throw new NotCalledError(`There is no server "${call.server}"`)
  const { signal, onKey } = options
  const onProgress = ({ message }: { message?: string | undefined }): void => onKey(message)
  const callOptions = { signal, timeoutMs: call.deadlineMs, onProgress }
  return client.callTool(call.tool, { key: call.key }, callOptions)
}

/** LangChain tools of all servers, with the principal in the config of each call. */
function openTools({ spec, factory }: CallerOptions): Caller {
  const entry = (url: string): McpToolsServerConfig => ({
    url,
    timeoutMs: spec.deadlineMs,
    headers: ({ configurable }) => bearer(String(configurable['principal'])),
  })
  const servers = Object.entries(spec.servers).map(([name, url]) => [name, entry(url)])
  const mcp = createMcpTools({
    servers: Object.fromEntries(servers),
    session: factory,
    principal: ({ configurable }) => String(configurable?.['principal']),
    onToolError: 'throw',
    openTelemetry: false,
    logger: { debug() {}, info() {}, warn() {}, error() {} },
  })
  return {
    async call(call, options) {
      const signal = AbortSignal.any([options.signal, AbortSignal.timeout(call.deadlineMs)])
      const configurable = { principal: call.principal }
      const tools = await mcp.listTools({ config: { configurable, signal } })
      const tool = tools.find(
        ({ origin }) => origin.server.name === call.server && origin.toolName === call.tool,
      )
      if (!tool) throw new NotCalledError('The tool was not listed')
      const handleCustomEvent = (name: string, data: { message?: unknown }): void => {
        if (name === 'mcp_progress') options.onKey(data.message)
      }
      const config = { configurable, signal, callbacks: [{ handleCustomEvent }] }
      const text: unknown = await tool.invoke({ key: call.key }, config)
      return { content: [{ text: typeof text === 'string' ? text : JSON.stringify(text) }] }
    },
    close: () => mcp.close(),
  }
}

/** The `Client` of the SDK on our transport, connected again after a failed handshake. */
function openSdk({ spec, factory, principal }: CallerOptions): Caller {
  const clients = new Map<string, Promise<Client>>()
  const connect = async (server: string): Promise<Client> => {
    const url = spec.servers[server] ?? ''
    const sessionInfo = factory.createSession({ mcpUrl: url }, { principal })
    const options = { headers: bearer(principal), sessionInfo }
    const client = new Client({ name: 'chaos', version: '1.0.0' })
    const onSessionLost = 'reinitialize'
    const transport = new StreamableHttpTransport(url, { ...options, onSessionLost })
    // The SDK limits the time of `initialize` only, not of what comes before and after it.
    const late = setTimeout(() => void transport.close(), spec.deadlineMs / 2)
    try {
      await client.connect(transport).finally(() => clearTimeout(late))
      if (client.transport === undefined) throw new Error('The handshake took too long')
    } catch (error) {
      // The server may have opened a session. The call need not wait until it is ended.
      void transport.terminateSession().catch(() => {})
      throw error
    }
    return client
  }
  return {
    async call({ server, tool, key, deadlineMs }, { signal, onKey }) {
      const begun = performance.now()
      const connecting = clients.get(server) ?? connect(server)
      clients.set(server, connecting)
      const forget = (): void => {
        if (clients.get(server) === connecting) clients.delete(server)
      }
      const client = await connecting.catch((error: unknown) => {
        forget()
        throw new NotCalledError(String(error))
      })
      client.onclose = forget
      const onprogress = ({ message }: { message?: string | undefined }): void => onKey(message)
      const timeout = Math.max(1, deadlineMs - (performance.now() - begun))
      const params = { name: tool, arguments: { key } }
      return client.callTool(params, undefined, { signal, timeout, onprogress })
    },
    close: () =>
      Promise.allSettled(
        [...clients.values()].map(async (connecting) => {
          const client = await connecting
          const { transport } = client
          if (transport instanceof StreamableHttpTransport) await transport.terminateSession()
          await client.close()
        }),
      ),
  }
}

/** Runs one call, and finds out what the client says of it. */
async function reportOf(
  caller: Caller,
  { call, signal }: { readonly call: Call; readonly signal: AbortSignal },
): Promise<CallReport> {
  const progressKeys: string[] = []
  try {
    const onKey = (key: unknown): void => void progressKeys.push(String(key))
    const result = await caller.call(call, { signal, onKey })
    if ('isError' in result && result.isError === true) {
      const error = JSON.stringify(result)
      // The gateway reports an unknown outcome in the result; other tools do not report one.
      const isUnknown = error.includes('"outcome_unknown"')
      return { outcome: isUnknown ? 'unknown' : 'failed', error, progressKeys }
    }
    const answer = answerFrom(result)
    return { outcome: 'executed', progressKeys, ...(answer && { answer }) }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? `${String(error.code)}: ` : ''
    return { outcome: outcomeOf(error), progressKeys, error: `${code}${String(error)}` }
  }
}

function outcomeOf(error: unknown): Outcome {
  if (error instanceof NotCalledError) return 'not-executed'
  if (McpToolError.is(error) && error.outcome === undefined) {
    if (error.code === 'OUTCOME_UNKNOWN' || error.code === 'TIMEOUT') return 'unknown'
    return error.code === 'UNREACHABLE' || error.code === 'TOOL_REMOVED' ? 'not-executed' : 'failed'
  }
  const isOurs = McpToolError.is(error) || McpClientError.is(error) || TransportError.is(error)
  return isOurs ? (error.outcome ?? 'failed') : 'failed'
}

interface Kind {
  readonly open: (options: CallerOptions) => Caller
  /** One client serves all principals of the process. */
  readonly isShared: boolean
}

const kinds: Readonly<Record<string, Kind>> = {
  client: { open: openClients, isShared: false },
  scoped: { open: openScoped, isShared: true },
  tools: { open: openTools, isShared: true },
  sdk: { open: openSdk, isShared: false },
}
const opened = new Map<string, AgentClient>()

serveAgent((spec, principal) => {
  const kind = kinds[spec.kind ?? 'client']
  if (!kind) throw new TypeError(`Unknown kind of agent "${spec.kind}"`)
  const owner = kind.isShared ? 'all principals' : principal
  const existing = opened.get(owner)
  if (existing) return existing
  const durable =
    spec.debugStateUrl !== undefined &&
    new SessionInfoDebugStateFactory({
      baseUrl: spec.debugStateUrl,
      agentId: spec.name,
      onWarning() {},
    })
  const caller = kind.open({ spec, factory: durable || new SessionInfoFactory(), principal })
  const client: AgentClient = {
    call: (call, signal) => reportOf(caller, { call, signal }),
    async close() {
      opened.delete(owner)
      await caller.close()
      if (durable) await durable.close()
    },
  }
  opened.set(owner, client)
  return client
})
