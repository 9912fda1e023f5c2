import { request as httpRequest } from 'node:http'
import { pipeline } from 'node:stream'
import { CallLedger } from './call-ledger.ts'
import type { LegacyServer } from './legacy-server.ts'
import { startLegacyServer } from './legacy-server.ts'
import type { ModernServer } from './modern-server.ts'
import { startModernServer } from './modern-server.ts'
import { startTestServer } from './loopback-server.ts'

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
  const front = await startTestServer((request, response) => {
    const { method, headers } = request
    const upstream = httpRequest(replaceable[replaceable.kind].url, { method, headers })
    upstream.on('response', (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers).flushHeaders()
      pipeline(answer, response, () => {})
    })
    upstream.on('error', () => response.destroy())
    response.on('close', () => upstream.destroy())
    pipeline(request, upstream, () => {})
  })
  const replaceable: ReplaceableServer = {
    url: front.url,
    legacy,
    modern,
    ledger,
    kind,
    executions: (tool) => ledger.executions(tool),
    async [Symbol.asyncDispose]() {
      await front[Symbol.asyncDispose]()
      await modern[Symbol.asyncDispose]()
      await legacy[Symbol.asyncDispose]()
      ledger.close()
    },
  }
  return replaceable
}
