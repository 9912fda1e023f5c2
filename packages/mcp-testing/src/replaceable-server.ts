import { CallLedger } from './call-ledger.ts'
import type { LegacyServer } from './legacy-server.ts'
import { startLegacyServer } from './legacy-server.ts'
import type { ModernServer } from './modern-server.ts'
import { startModernServer } from './modern-server.ts'
import { startRecordingProxy } from './proxy/recording-proxy.ts'

/** Era of the server behind the URL. */
export type ServerKind = 'legacy' | 'modern'

/** One URL behind which a server of either era answers. */
export interface ReplaceableServer extends AsyncDisposable {
  readonly url: string
  readonly legacy: LegacyServer
  readonly modern: ModernServer
  /** Calls that reached either server. */
  readonly ledger: CallLedger
  /** Era of the server that answers now. Set it to replace the server. */
  kind: ServerKind
  /** Number of calls of a tool that either server executed. */
  executions(tool: string): number
}

/** Starts a {@link ReplaceableServer} with a server of each era. */
export async function startReplaceableServer(kind: ServerKind): Promise<ReplaceableServer> {
  const ledger = new CallLedger()
  const legacy = await startLegacyServer({ ledger })
  const modern = await startModernServer({ ledger })
  const servers = { legacy, modern, ledger, kind }
  const target = (): string => servers[servers.kind].url
  const proxy = await startRecordingProxy(target, { keepExchanges: 0 })
  return Object.assign(servers, {
    url: proxy.url,
    executions: (tool: string) => ledger.executions(tool),
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]()
      await modern[Symbol.asyncDispose]()
      await legacy[Symbol.asyncDispose]()
      ledger.close()
    },
  })
}
