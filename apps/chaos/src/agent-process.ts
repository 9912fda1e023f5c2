// An agent process that uses the clients of this repository.
import { AsyncLocalStorage } from 'node:async_hooks'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { SessionInfoDebugStateFactory } from '@x/agents-debugstate'
import { createMcpTools, McpToolError } from '@x/langchain-mcp'
import type { McpTool, McpToolsServerConfig } from '@x/langchain-mcp'
import { McpClient, McpClientError, SessionInfoFactory } from '@x/mcp-client'
import { StreamableHttpTransport, TransportError } from '@x/mcp-transport'
import { answerFrom, serveAgent } from './agent.ts'
import type { AgentClient, CallReport, OpenClient } from './agent.ts'
import type { AgentSpec, Call, Outcome } from './protocol.ts'

const bearer = (principal = ''): Record<string, string> => ({
  authorization: `Bearer ${principal}`,
})

/** Runs one call: `make` returns the result and may add keys of progress messages. */
async function report(
  make: (progress: (key: unknown) => void) => Promise<object>,
): Promise<CallReport> {
  const progressKeys: string[] = []
  try {
    const result = await make((key) => progressKeys.push(String(key)))
    if ('isError' in result && result.isError === true)
      return { ...toolError(result), progressKeys }
    const answer = answerFrom(result)
    return { outcome: 'executed', progressKeys, ...(answer && { answer }) }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? `${String(error.code)}: ` : ''
    return { outcome: outcomeOf(error), progressKeys, error: `${code}${String(error)}` }
  }
}

/** A tool that reports an error by itself claims nothing, except where the gateway says more. */
function toolError(result: object): Pick<CallReport, 'outcome' | 'error'> {
  const error = JSON.stringify(result)
  return { outcome: error.includes('"outcome_unknown"') ? 'unknown' : 'failed', error }
}

function outcomeOf(error: unknown): Outcome {
  if (McpToolError.is(error) && error.outcome === undefined) {
    if (error.code === 'OUTCOME_UNKNOWN' || error.code === 'TIMEOUT') return 'unknown'
    return error.code === 'UNREACHABLE' || error.code === 'TOOL_REMOVED' ? 'not-executed' : 'failed'
  }
  if (!McpToolError.is(error) && !McpClientError.is(error) && !TransportError.is(error))
    return 'failed'
  return error.outcome ?? 'failed'
}

function sessions(spec: AgentSpec): { factory: SessionInfoFactory; close: () => Promise<void> } {
  if (spec.debugStateUrl === undefined) {
    return { factory: new SessionInfoFactory(), close: () => Promise.resolve() }
  }
  const baseUrl = spec.debugStateUrl
  const factory = new SessionInfoDebugStateFactory({ baseUrl, agentId: spec.name, onWarning() {} })
  return { factory, close: () => factory.close() }
}

const urlOf = (spec: AgentSpec, call: Call): string => spec.servers[call.server] ?? ''

/** An `McpClient` for each server of one principal. */
function openClients(spec: AgentSpec, principal: string): AgentClient {
  const { factory, close } = sessions(spec)
  const clients = new Map<string, McpClient>()
  return {
    call: (call, signal) =>
      report((progress) => {
        const client =
          clients.get(call.server) ??
          new McpClient(
            { url: urlOf(spec, call), headers: bearer(principal) },
            { sessionInfoFactory: factory, scope: { principal }, openTelemetry: false },
          )
        clients.set(call.server, client)
        return callTool(client, call, { signal, progress })
      }),
    async close() {
      await Promise.all([...clients.values()].map((client) => client.dispose()))
      await close()
    },
  }
}

function callTool(
  client: McpClient,
  { tool, key, deadlineMs }: Call,
  { signal, progress }: { signal: AbortSignal; progress: (key: unknown) => void },
): Promise<object> {
  const onProgress = ({ message }: { message?: string | undefined }): void => progress(message)
  return client.callTool(tool, { key }, { signal, timeoutMs: deadlineMs, onProgress })
}

/** Clients that all principals of the process share. They are closed with the first principal. */
interface Shared {
  call(call: Call, signal: AbortSignal): Promise<CallReport>
  close(): Promise<void>
}

function shared(open: (spec: AgentSpec) => Shared): OpenClient {
  let current: Shared | undefined
  return (spec) => {
    const own = (current ??= open(spec))
    return {
      call: (call, signal) => own.call(call, signal),
      close: async () => {
        if (current === own) current = undefined
        await own.close()
      },
    }
  }
}

/** One `McpClient` for each server, with a scope that is asked for at each call. */
const openScoped = shared((spec) => {
  const { factory, close } = sessions(spec)
  const caller = new AsyncLocalStorage<string>()
  const scope = (): { principal: string } => ({ principal: caller.getStore() ?? 'nobody' })
  const clients = new Map(
    Object.entries(spec.servers).map(([name, url]) => [
      name,
      new McpClient(
        { url, headers: (request) => bearer(request.scope?.principal) },
        { sessionInfoFactory: factory, scope, openTelemetry: false },
      ),
    ]),
  )
  return {
    call: (call, signal) =>
      report(async (progress) => {
        const client = clients.get(call.server)
        if (!client) throw new TypeError(`Unknown server "${call.server}"`)
        return caller.run(call.principal, () => callTool(client, call, { signal, progress }))
      }),
    async close() {
      await Promise.all([...clients.values()].map((client) => client.dispose()))
      await close()
    },
  }
})

/** LangChain tools of all servers, with the principal in the config of each call. */
const openTools = shared((spec) => {
  const { factory, close } = sessions(spec)
  const entry = (url: string): McpToolsServerConfig => ({
    url,
    timeoutMs: spec.deadlineMs,
    headers: ({ configurable }) => bearer(String(configurable['principal'])),
  })
  const mcp = createMcpTools({
    servers: Object.fromEntries(
      Object.entries(spec.servers).map(([name, url]) => [name, entry(url)]),
    ),
    session: factory,
    principal: ({ configurable }) => String(configurable?.['principal']),
    onToolError: 'throw',
    openTelemetry: false,
    logger: silent,
  })
  const find = async (call: Call, signal: AbortSignal): Promise<McpTool | undefined> => {
    const config = { configurable: { principal: call.principal }, signal }
    const tools = await mcp.listTools({ config })
    return tools.find(
      ({ origin }) => origin.server.name === call.server && origin.toolName === call.tool,
    )
  }
  return {
    async call(call, signal) {
      const limit = AbortSignal.any([signal, AbortSignal.timeout(call.deadlineMs)])
      const tool = await find(call, limit)
      // A server that gives no list has no tools, so nothing was called.
      if (!tool)
        return { outcome: 'not-executed', progressKeys: [], error: 'The tool was not listed' }
      return report(async (progress) => {
        const handleCustomEvent = (name: string, data: { message?: unknown }): void => {
          if (name === 'mcp_progress') progress(data.message)
        }
        const text: unknown = await tool.invoke(
          { key: call.key },
          {
            configurable: { principal: call.principal },
            signal: limit,
            callbacks: [{ handleCustomEvent }],
          },
        )
        return { content: [{ text: typeof text === 'string' ? text : JSON.stringify(text) }] }
      })
    },
    async close() {
      await mcp.close()
      await close()
    },
  }
})

const silent = { debug() {}, info() {}, warn() {}, error() {} }

/** The SDK's `Client` on our transport, connected again after a failed handshake. */
function openSdk(spec: AgentSpec, principal: string): AgentClient {
  const { factory, close } = sessions(spec)
  const clients = new Map<string, Promise<Client>>()
  const connect = async (server: string): Promise<Client> => {
    const url = spec.servers[server] ?? ''
    const sessionInfo = factory.createSession({ mcpUrl: url }, { principal })
    const options = {
      onSessionLost: 'reinitialize',
      headers: bearer(principal),
      sessionInfo,
    } as const
    const client = new Client({ name: 'chaos', version: '1.0.0' })
    const transport = new StreamableHttpTransport(url, options)
    // The SDK limits the time of `initialize` only, not of what comes before and after it.
    const late = setTimeout(() => void transport.close(), spec.deadlineMs / 2)
    await client.connect(transport).finally(() => clearTimeout(late))
    if (client.transport === undefined) throw new Error('The handshake took too long')
    client.onclose = () => clients.delete(server)
    return client
  }
  return {
    async call(call, signal) {
      const started = performance.now()
      const connecting = clients.get(call.server) ?? connect(call.server)
      clients.set(call.server, connecting)
      let client: Client
      try {
        client = await connecting
      } catch (error) {
        if (clients.get(call.server) === connecting) clients.delete(call.server)
        return { outcome: 'not-executed', progressKeys: [], error: String(error) }
      }
      return report((progress) => {
        const onprogress = ({ message }: { message?: string | undefined }): void =>
          progress(message)
        const timeout = Math.max(1, call.deadlineMs - (performance.now() - started))
        const params = { name: call.tool, arguments: { key: call.key } }
        return client.callTool(params, undefined, { signal, timeout, onprogress })
      })
    },
    async close() {
      await Promise.allSettled(
        [...clients.values()].map(async (connecting) => {
          const client = await connecting
          const { transport } = client
          if (transport instanceof StreamableHttpTransport) await transport.terminateSession()
          await client.close()
        }),
      )
      await close()
    },
  }
}

const kinds: Readonly<Record<string, OpenClient>> = {
  client: openClients,
  scoped: openScoped,
  tools: openTools,
  sdk: openSdk,
}
serveAgent((spec, principal) => {
  const open = kinds[spec.kind ?? 'client']
  if (!open) throw new TypeError(`Unknown kind of agent "${spec.kind}"`)
  return open(spec, principal)
})
