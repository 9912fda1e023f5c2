import { createRequire } from 'node:module'
import { startEverythingServer } from '@x/internal/testing'
import type { LegacyServer, ReplaceableServer } from '@x/mcp-testing'
import type { ServerTrouble } from '../timeline/commands.ts'
import { startBasketServer } from './basket-server.ts'

const require = createRequire(import.meta.url)

export interface RunningServer extends AsyncDisposable {
  readonly url: string
  /** Legacy: sessions, revision 2025-11-25. Modern: revision 2026-07-28. Absent if it is not an MCP server. */
  kind?: ReplaceableServer['kind']
  /** The face with sessions, if there are two. */
  readonly legacy?: Pick<LegacyServer, 'forgetSessions'>
}

/** An HTTP server that the host starts. */
export interface ServerDefinition {
  /** As in `agent.json`. */
  readonly name: string
  readonly title: string
  readonly troubles: readonly ServerTrouble['name'][]
  /** Effect of a cut connection on calls that are not healed. */
  readonly afterCut?: string
  /** `kind` is that of the server before a restart. */
  readonly start: (kind?: RunningServer['kind']) => Promise<RunningServer>
}

export const SERVERS: readonly ServerDefinition[] = [
  {
    name: 'basket',
    title: 'Basket: keeps a shopping basket in the session',
    troubles: ['forget-sessions', 'restart-server', 'cut-connections', 'switch-era'],
    start: startBasketServer,
  },
  {
    name: 'everything',
    title: 'Everything: the reference server, from npm',
    troubles: ['restart-server', 'cut-connections'],
    afterCut: 'This server does not send a lost answer again: an open call fails after 60 s.',
    start: async () => ({ ...(await startEverythingServer()), kind: 'legacy' }),
  },
]

/** Program of `@modelcontextprotocol/server-memory`, which speaks stdio. */
export const MEMORY_SERVER: string =
  require.resolve('@modelcontextprotocol/server-memory/dist/index.js')
