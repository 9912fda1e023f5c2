// An agent process that uses the clients of this repository.
import { AsyncLocalStorage } from 'node:async_hooks'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { SessionInfoDebugStateFactory } from '@x/agents-debugstate'
import { isRecord } from '@x/internal'
import { createMcpTools, McpToolError } from '@x/langchain-mcp'
import type { McpToolsServerConfig } from '@x/langchain-mcp'
import { McpClient, McpClientError, SessionInfoFactory } from '@x/mcp-client'
import { StreamableHttpTransport, TransportError } from '@x/mcp-transport'
import { ClientCache, serveAgent } from './agent.ts'
import type { AgentClient, AgentSpec, Call, Outcome } from './agent.ts'

type Open = (spec: AgentSpec, sessionInfoFactory: SessionInfoFactory) => AgentClient

/** Failure of a call with an outcome that the error of the client does not hold. */
class CallError extends Error {
  readonly outcome: Outcome

  constructor(outcome: Outcome, message: string) {
    super(message)
    this.outcome = outcome
  }
}

const bearer = (principal = ''): Record<string, string> => ({
  authorization: `Bearer ${principal}`,
})

/**
 * An `McpClient` for each server and principal. With `isScoped`, one for each server: it reads the scope
 * at each call.
 */
function mcpClients(isScoped: boolean): Open {
  return ({ servers }, sessionInfoFactory) => {
    const current = new AsyncLocalStorage<string>()
    const readScope = (): { principal: string } => ({ principal: current.getStore() ?? 'nobody' })
    const clients = new Map<string, McpClient>()
    const clientFor = ({ server, principal }: Call): McpClient => {
      const key = isScoped ? server : `${server} ${principal}`
      const existing = clients.get(key)
      if (existing) return existing
      const url = servers[server] ?? ''
      const options = { sessionInfoFactory, openTelemetry: false } as const
      const client = isScoped
        ? new McpClient(
            { url, headers: ({ scope }) => bearer(scope?.principal) },
            { ...options, scope: readScope },
          )
        : new McpClient({ url, headers: bearer(principal) }, { ...options, scope: { principal } })
      clients.set(key, client)
      return client
    }
    return {
      call: (call, { signal, onProgress }) =>
        current.run(call.principal, () =>
          clientFor(call).callTool(
            call.tool,
            { key: call.key },
            {
              signal,
              timeoutMs: call.deadlineMs,
              onProgress: ({ message }) => onProgress(message),
            },
          ),
        ),
      close: () => Promise.all(Array.from(clients.values(), (client) => client.dispose())),
    }
  }
}

/** LangChain tools of all servers. The config of each call names the principal. */
const langChainTools: Open = (spec, session) => {
  const entry = (url: string): McpToolsServerConfig => ({
    url,
    timeoutMs: spec.deadlineMs,
    headers: ({ configurable }) => bearer(String(configurable['principal'])),
  })
  const servers = Object.entries(spec.servers).map(([name, url]) => [name, entry(url)])
  const mcp = createMcpTools({
    servers: Object.fromEntries(servers),
    session,
    principal: ({ configurable }) => String(configurable?.['principal']),
    onToolError: 'throw',
    openTelemetry: false,
  })
  return {
    async call({ server, principal, tool: name, key, deadlineMs }, { signal, onProgress }) {
      const configurable = { principal }
      const config = {
        configurable,
        signal: AbortSignal.any([signal, AbortSignal.timeout(deadlineMs)]),
      }
      const tools = await mcp.listTools({ config })
      const tool = tools.find(
        ({ origin }) => origin.server.name === server && origin.toolName === name,
      )
      if (!tool) throw new CallError('not-executed', 'The tool was not listed')
      const handleCustomEvent = (event: string, data: { message?: unknown }): void => {
        if (event === 'mcp_progress') onProgress(data.message)
      }
      return tool.invoke({ key }, { ...config, callbacks: [{ handleCustomEvent }] })
    },
    close: () => mcp.close(),
  }
}

/** The SDK's `Client` on our transport, connected again after a failed handshake. */
const sdkClients: Open = (spec, sessionInfoFactory) => {
  const clients = new ClientCache<Client>()
  const connect = async ({ server, principal, deadlineMs }: Call): Promise<Client> => {
    const url = spec.servers[server] ?? ''
    const sessionInfo = sessionInfoFactory.createSession({ mcpUrl: url }, { principal })
    const options = { headers: bearer(principal), sessionInfo }
    const client = new Client({ name: 'chaos', version: '1.0.0' })
    const onSessionLost = 'reinitialize'
    const transport = new StreamableHttpTransport(url, { ...options, onSessionLost })
    // The SDK limits the time of `initialize` only, not of the requests before and after it.
    const late = setTimeout(() => void transport.close(), deadlineMs / 2)
    try {
      await client.connect(transport).finally(() => clearTimeout(late))
      if (client.transport === undefined) throw new Error('The handshake took too long')
    } catch (error) {
      // The server may have opened a session. The call does not wait for the end of that session.
      void transport.terminateSession().catch(() => {})
      throw new CallError('not-executed', String(error))
    }
    return client
  }
  return {
    async call(call, { signal, onProgress }) {
      const begun = performance.now()
      const id = `${call.server} ${call.principal}`
      const opening = clients.get(id, () => connect(call))
      const client = await opening
      client.onclose = () => void clients.forget(id, opening)
      const timeout = Math.max(1, call.deadlineMs - (performance.now() - begun))
      const onprogress = ({ message }: { message?: string | undefined }): void =>
        onProgress(message)
      const params = { name: call.tool, arguments: { key: call.key } }
      return client.callTool(params, undefined, { signal, timeout, onprogress })
    },
    close: () =>
      clients.closeAll(async (client) => {
        const { transport } = client
        if (!(transport instanceof StreamableHttpTransport)) return
        await transport.terminateSession().finally(() => client.close())
      }),
  }
}

function outcomeOf(error: unknown): Outcome {
  if (McpToolError.is(error) && error.outcome === undefined) {
    if (error.code === 'OUTCOME_UNKNOWN' || error.code === 'TIMEOUT') return 'unknown'
    return error.code === 'UNREACHABLE' || error.code === 'TOOL_REMOVED' ? 'not-executed' : 'failed'
  }
  const hasOutcome =
    error instanceof CallError ||
    McpToolError.is(error) ||
    McpClientError.is(error) ||
    TransportError.is(error)
  return hasOutcome ? (error.outcome ?? 'failed') : 'failed'
}

const kinds: Readonly<Record<string, Open>> = {
  client: mcpClients(false),
  scoped: mcpClients(true),
  tools: langChainTools,
  sdk: sdkClients,
}

serveAgent((spec) => {
  const open = kinds[spec.kind]
  if (!open) throw new TypeError(`Unknown kind of agent "${spec.kind}"`)
  const { name: agentId, debugStateUrl: baseUrl } = spec
  const durable =
    baseUrl !== undefined && new SessionInfoDebugStateFactory({ baseUrl, agentId, onWarning() {} })
  const client = open(spec, durable || new SessionInfoFactory())
  return {
    async call(call, options) {
      const result = await client.call(call, options)
      if (isRecord(result) && result['isError'] === true) {
        const text = JSON.stringify(result)
        // The gateway reports an unknown outcome in the result; other tools do not report one.
        throw new CallError(text.includes('"outcome_unknown"') ? 'unknown' : 'failed', text)
      }
      return result
    },
    async close() {
      await client.close()
      if (durable) await durable.close()
    },
  }
}, outcomeOf)
