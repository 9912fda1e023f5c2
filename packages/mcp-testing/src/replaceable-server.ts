import { request as httpRequest } from 'node:http'
import { pipeline } from 'node:stream'
import { startModernServer } from './modern/modern-server.ts'
import type { ModernServer } from './modern/modern-server.ts'
import { startLegacyServer } from './legacy-server.ts'
import type { LegacyServer } from './legacy-server.ts'
import { startTestServer } from './test-server.ts'

/** What is behind the URL. */
export type ServerKind = 'legacy' | 'modern'

/** One URL that a server of the other era can take over. */
export interface ReplaceableServer extends AsyncDisposable {
  readonly url: string
  readonly legacy: LegacyServer
  readonly modern: ModernServer
  /** What is behind the URL now. */
  kind: ServerKind
  /** How often a tool really ran, on both. */
  executions(tool: string): number
}

/** Starts a {@link ReplaceableServer}, in front of a server of each era. */
export async function startReplaceableServer(kind: ServerKind): Promise<ReplaceableServer> {
  const legacy = await startLegacyServer()
  const modern = await startModernServer()
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
    kind,
    executions: (tool) => legacy.executions(tool) + modern.executions(tool),
    async [Symbol.asyncDispose]() {
      await front[Symbol.asyncDispose]()
      await modern[Symbol.asyncDispose]()
      await legacy[Symbol.asyncDispose]()
    },
  }
  return replaceable
}
