import type { RunnableConfig } from '@langchain/core/runnables'
import { breakingChanges } from '../schema/definition-drift.ts'
import { schemaDefectOf } from '../schema/schema-defect.ts'
import type { McpToolErrorCode } from '../mcp-tool-error.ts'
import { toolErrorFrom } from './tool-failure.ts'
import type { ToolLog, ToolLogEntry } from '../tool-log.ts'
import { serverTitle, type McpToolOrigin } from '../tool-origin.ts'
import type { McpToolSource, ToolDefinition } from '../catalogue/tool-source.ts'

/** How long a call waits to learn what the server has now, at most. A list that is known costs nothing. */
const LIST_MS = 60_000

/** What a stored definition was last found to fit: a client's list is the same until it is read anew. */
const FITS = new WeakMap<ToolDefinition, ToolDefinition>()

/** What became of a tool since its definition was stored. */
export type Drift =
  /** Calls still fit. `live` is what the server has, if it could be asked. */
  | { readonly kind: 'none'; readonly live?: ToolDefinition | undefined }
  | {
      readonly kind: 'breaking'
      readonly live: ToolDefinition
      readonly changes: readonly string[]
    }
  | { readonly kind: 'removed' }

export interface DriftOptions {
  readonly source: McpToolSource
  readonly origin: McpToolOrigin
  readonly log: ToolLog
  readonly config: RunnableConfig
  /** Limit of the call in milliseconds. */
  readonly timeoutMs?: number | undefined
}

/**
 * Compares the definition that a model was told of with the server's list, which its client keeps. Where
 * there is no list to be had, the stored definition counts.
 *
 * @throws the reason of the run's signal, and what interrupts the graph
 */
export async function driftOf(bound: ToolDefinition, options: DriftOptions): Promise<Drift> {
  const { source, config, origin, log, timeoutMs = LIST_MS } = options
  const { signal } = config
  let list: readonly ToolDefinition[]
  try {
    list = await source.listTools({ signal, config, timeoutMs: Math.min(timeoutMs, LIST_MS) })
  } catch (error) {
    signal?.throwIfAborted()
    if (isInterrupt(error)) throw error
    const code = toolErrorFrom(error, origin)?.code
    report({ log, origin }, 'LIST_FAILED', {
      what: `could not be compared with its server: ${reasonOf(error)}`,
      // The call will fail in the same way, and be told: one failure, one warning.
      level: code !== undefined && FAILS_ALIKE.has(code) ? 'info' : 'warning',
    })
    return { kind: 'none' }
  }
  const live = list.find(({ name }) => name === origin.toolName)
  if (live === undefined) {
    report({ log, origin }, 'TOOL_REMOVED', { what: 'is no longer offered: it was not called' })
    return { kind: 'removed' }
  }
  if (live.inputSchema === bound.inputSchema || FITS.get(bound) === live) {
    return { kind: 'none', live }
  }
  const isReadable =
    bound.inputSchema === undefined || schemaDefectOf(bound.inputSchema) === undefined
  if (!isReadable) return { kind: 'none', live } // it was left to the server, and still is
  const defect = live.inputSchema === undefined ? undefined : schemaDefectOf(live.inputSchema)
  if (defect !== undefined) {
    const what = `has a schema now that cannot be used: ${defect}`
    report({ log, origin }, 'TOOL_QUARANTINED', { what })
    return { kind: 'none' }
  }
  const changes = breakingChanges(bound, live)
  if (changes.length === 0) FITS.set(bound, live)
  return changes.length > 0 ? { kind: 'breaking', live, changes } : { kind: 'none', live }
}

/** Failures to reach the server at all. */
const FAILS_ALIKE: ReadonlySet<McpToolErrorCode> = new Set<McpToolErrorCode>([
  'UNREACHABLE',
  'UNAUTHORIZED',
  'CONFIG',
  'CLOSED',
])

function report(
  { log, origin }: Pick<DriftOptions, 'log' | 'origin'>,
  code: 'LIST_FAILED' | 'TOOL_REMOVED' | 'TOOL_QUARANTINED',
  { what, level = 'warning' }: { readonly what: string; readonly level?: ToolLogEntry['level'] },
): void {
  const server = serverTitle(origin.server)
  const tool = origin.toolName
  const message = `Tool "${tool}" of MCP server "${server}" ${what}`
  log({ level, code, message, server, tool })
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** LangGraph's own, which belongs to the graph. */
function isInterrupt(error: unknown): boolean {
  return error instanceof Error && 'is_bubble_up' in error && error.is_bubble_up === true
}
