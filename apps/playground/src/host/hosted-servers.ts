import type { ServerTrouble } from '../timeline/commands.ts'
import { startBasketServer } from '../servers/basket-server.ts'
import { startEverything } from '../servers/npm-servers.ts'

/** An MCP server that the host starts. */
export interface HostedServer {
  /** As in `agent.json`. */
  readonly name: string
  readonly title: string
  readonly troubles: readonly ServerTrouble['name'][]
  readonly start: () => Promise<RunningServer>
}

export interface RunningServer extends AsyncDisposable {
  readonly url: string
  /** Protocol revision that the server answers with. */
  readonly revision: () => string
  readonly forgetSessions?: () => void
  readonly restart?: () => Promise<void>
  readonly switchEra?: () => void
}

const LEGACY = '2025-11-25'
const MODERN = '2026-07-28'

export const HOSTED_SERVERS: readonly HostedServer[] = [
  {
    name: 'basket',
    title: 'Basket: keeps a shopping basket in the session',
    troubles: ['forget-sessions', 'restart-server', 'cut-connections', 'switch-era'],
    async start() {
      const server = await startBasketServer()
      return {
        url: server.url,
        revision: () => (server.era === 'legacy' ? LEGACY : MODERN),
        forgetSessions: () => server.forgetSessions(),
        restart: () => server.restart(),
        switchEra() {
          server.era = server.era === 'legacy' ? 'modern' : 'legacy'
        },
        [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
      }
    },
  },
  {
    name: 'everything',
    title: 'Everything: the reference server, from npm',
    troubles: ['restart-server', 'cut-connections'],
    async start() {
      const server = await startEverything()
      return {
        url: server.url,
        revision: () => LEGACY,
        restart: () => server.restart(),
        [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
      }
    },
  },
]
