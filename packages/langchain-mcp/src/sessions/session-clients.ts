import { McpClient, SessionPool } from '@x/mcp-client'
import type {
  AuthProviderOf,
  McpServerConfig,
  PerServerOptions,
  SessionInfoSource,
  SessionScope,
} from '@x/mcp-client'
import { createDispatcher } from '@x/mcp-transport'
import { currentCall } from '../calls/call-context.ts'
import type { ElicitationToInterrupt } from '../interrupts/elicitation-to-interrupt.ts'
import { handlersOf } from '../interrupts/handlers-of.ts'
import type { CreateMcpToolsOptions } from '../mcp-tools.ts'
import { clientOptionsFrom } from '../option-check.ts'
import type { ToolLog } from '../tool-log.ts'
import { SessionInfoLangGraphStoreFactory } from './session-info-langgraph-store-factory.ts'
import type { SessionMode } from './session-mode.ts'

export interface SessionClients {
  readonly createClient: (config: McpServerConfig, entry: ServerEntry) => McpClient
  /** Ends the sessions of a thread on their servers. */
  readonly endThread: (thread: string) => Promise<void>
  /** Never rejects. */
  readonly disconnect: () => Promise<void>
}

/** What an entry of `servers` says beside the server itself. */
interface ServerEntry {
  /** Its key. */
  readonly name: string
  readonly own: PerServerOptions
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
  const ownDispatcher =
    options.dispatcher === undefined
      ? createDispatcher({ connectMs: options.timeouts?.connectMs })
      : undefined
  const sessionInfoFactory = factoryOf(options, { mode, log })
  const handlers = handlersOf(elicitation, options.handlers)
  const common = {
    ...clientOptionsFrom(options),
    dispatcher: options.dispatcher ?? ownDispatcher,
    sessionInfoFactory,
    handlers,
  }
  const { idleScopes: _idleScopes, ...ofPool } = common // sessions of a run end with it
  const pool = mode === 'run' ? new SessionPool({ ...ofPool, scope }) : undefined
  const isOne = mode === 'shared' && options.principal === undefined
  const clients: McpClient[] = []
  return {
    createClient(config, { name, own }) {
      const { authProvider } = options
      const forServer =
        typeof authProvider === 'function'
          ? { label: name, authProvider: named(authProvider, name), ...own }
          : { label: name, ...own }
      // A scope that never changes is no function: what is asked for is let go of when nobody uses it.
      const client =
        pool?.acquire(config, forServer) ??
        new McpClient(config, { ...common, ...forServer, ...(isOne ? {} : { scope }) })
      clients.push(client)
      return client
    },
    async endThread(thread) {
      const disposals = clients.flatMap((client) =>
        client
          .status()
          .sessions.filter(({ scope: of }) => of?.thread === thread)
          .map(({ scope: of }) => client.dispose({ scope: of, terminate: true })),
      )
      await Promise.allSettled(disposals)
    },
    async disconnect() {
      await Promise.allSettled([pool?.dispose(), ...clients.map((client) => client.dispose())])
      await ownDispatcher?.destroy().catch(() => {}) // closed by now, in whatever way
    },
  }
}

/** Tells a function for providers the name that the caller has given the server. */
function named(authProvider: AuthProviderOf, name: string): AuthProviderOf {
  return (server, of) => authProvider({ ...server, name }, of)
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
