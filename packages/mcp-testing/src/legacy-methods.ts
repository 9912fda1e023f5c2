import type { RpcCall } from './rpc-call.ts'
import { RpcFailure } from './rpc-call.ts'
import { legacyTools } from './legacy-tools.ts'
import type { ToolRuns } from './tool-runs.ts'

/** Revisions the server speaks, latest first. */
export const legacyVersions: readonly [string, ...string[]] = [
  '2025-11-25',
  '2025-06-18',
  '2025-03-26',
]

/** What the methods need of the server. */
export interface MethodContext {
  readonly runs: ToolRuns
  readonly pageSize: number | undefined
}

/**
 * The result of a request.
 *
 * @throws {RpcFailure} when the answer is an error
 */
export function resultOf(call: RpcCall, { runs, pageSize }: MethodContext): unknown {
  const { session, params } = call
  switch (call.method) {
    case 'initialize':
      return {
        protocolVersion: session.protocolVersion,
        capabilities: {
          tools: { listChanged: true },
          resources: { subscribe: true },
          logging: {},
        },
        serverInfo: { name: 'stateful-test-server', version: '1.0.0' },
        instructions: 'State is kept in the session.',
      }
    case 'ping':
    case 'logging/setLevel':
    case 'resources/subscribe':
    case 'resources/unsubscribe':
      return {}
    case 'tools/list':
      return toolsPage(params['cursor'], pageSize)
    case 'tools/call':
      return runs.run(call)
    case 'resources/list':
      return { resources: [{ uri: 'counter://value', name: 'counter' }] }
    case 'resources/read':
      return { contents: [{ uri: 'counter://value', text: String(session.count) }] }
    default:
      throw new RpcFailure(-32601, 'Method not found')
  }
}

function toolsPage(cursor: unknown, pageSize = legacyTools.length): unknown {
  const start = cursor === undefined ? 0 : Number(cursor)
  if (!Number.isInteger(start) || start < 0 || start >= legacyTools.length) {
    throw new RpcFailure(-32602, 'Invalid cursor')
  }
  const end = start + pageSize
  return {
    tools: legacyTools.slice(start, end).map((tool) => tool.definition),
    nextCursor: end < legacyTools.length ? String(end) : undefined,
  }
}
