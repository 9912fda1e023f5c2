import { CallLedger } from './call-ledger.ts'
import type { LegacyServer } from './legacy-server.ts'
import { startLegacyServer } from './legacy-server.ts'
import type { ModernServer } from './modern-server.ts'
import { startModernServer } from './modern-server.ts'
import { startRecordingProxy } from './proxy/recording-proxy.ts'

/** One URL behind which a server of either era answers. */
export interface ReplaceableServer extends AsyncDisposable {
  readonly url: string
  readonly legacy: LegacyServer
  readonly modern: ModernServer
  /** Calls that reached either server. */
  readonly ledger: CallLedger
  /** Era of the server that answers now. Set it to replace the server. */
  kind: 'legacy' | 'modern'
  /** Ends all servers, as `await using` does. */
  close(): Promise<void>
}

/**
 * Starts a {@link ReplaceableServer} with a server of each era.
 *
 * @example
 * ```ts
 * import { startReplaceableServer } from '@x/mcp-testing'
 *
 * await using server = await startReplaceableServer('legacy')
 * server.kind = 'modern' // from now on, the same URL leads to a stateless server
 * ```
 */
export async function startReplaceableServer(
  kind: ReplaceableServer['kind'],
): Promise<ReplaceableServer> {
  const ledger = new CallLedger()
  const legacy = await startLegacyServer({ ledger })
  const modern = await startModernServer({ ledger })
  const servers = { legacy, modern, ledger, kind }
  const proxy = await startRecordingProxy(() => servers[servers.kind].url, { keepExchanges: 0 })
  const close = async (): Promise<void> => {
    for (const one of [proxy, modern, legacy]) await one.close()
    ledger.close()
  }
  return Object.assign(servers, { url: proxy.url, close, [Symbol.asyncDispose]: close })
}
