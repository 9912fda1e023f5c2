import { McpClient, SessionPool } from '@x/mcp-client'
import type { McpServerConfig, SessionInfoSource, SessionScope } from '@x/mcp-client'
import { createDispatcher } from '@x/mcp-transport'
import { currentCall } from '../calls/call-context.ts'
import type { ElicitationToInterrupt } from '../interrupts/elicitation-to-interrupt.ts'
import { handlersOf } from '../interrupts/handlers-of.ts'
import type { CreateMcpToolsOptions } from '../mcp-tools.ts'
import type { ToolLog } from '../tool-log.ts'
import { SessionInfoLangGraphStoreFactory } from './session-info-langgraph-store-factory.ts'
import type { SessionMode } from './session-mode.ts'

export interface SessionClients {
  readonly createClient: (config: McpServerConfig) => McpClient
  /** Never rejects. */
  readonly disconnect: () => Promise<void>
}

/** One client for each server; its sessions are told apart by the scope, asked at each call. */
export function sessionClientsFor(
  options: CreateMcpToolsOptions,
  {
    mode,
    log,
    elicitation,
  }: {
    readonly mode: SessionMode
    readonly log: ToolLog
    readonly elicitation: ElicitationToInterrupt | undefined
  },
): SessionClients {
  // Sessions come and go, connections need not: one pool for all of them.
  const own =
    options.dispatcher === undefined
      ? createDispatcher({ connectMs: options.timeouts?.connectMs })
      : undefined
  const sessionInfoFactory = factoryOf(options, { mode, log })
  const handlers = handlersOf(elicitation, options.handlers)
  const common = { ...options, dispatcher: options.dispatcher ?? own, sessionInfoFactory, handlers }
  const pool = mode === 'run' ? new SessionPool({ ...common, scope }) : undefined
  const isOne = mode === 'shared' && options.principal === undefined
  const clients: McpClient[] = []
  return {
    createClient(config) {
      // A scope that never changes is no function: what is asked for is let go of when nobody uses it.
      const client =
        pool?.acquire(config) ?? new McpClient(config, { ...common, ...(isOne ? {} : { scope }) })
      clients.push(client)
      return client
    },
    async disconnect() {
      await Promise.allSettled([pool?.dispose(), ...clients.map((client) => client.dispose())])
      await own?.destroy().catch(() => {}) // closed by now, in whatever way
    },
  }
}

function scope(): SessionScope {
  return currentCall()?.scope ?? {}
}

export function sessionModeOf({ session = 'shared' }: CreateMcpToolsOptions): SessionMode {
  return typeof session === 'string' ? session : 'shared'
}

function factoryOf(
  { session, sessionInfoFactory }: CreateMcpToolsOptions,
  { mode, log }: { readonly mode: SessionMode; readonly log: ToolLog },
): SessionInfoSource | undefined {
  if (typeof session === 'object') return session
  if (sessionInfoFactory !== undefined || mode !== 'thread') return sessionInfoFactory
  return new SessionInfoLangGraphStoreFactory({ log })
}
