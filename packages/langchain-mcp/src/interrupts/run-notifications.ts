import { dispatchCustomEvent } from '@langchain/core/callbacks/dispatch/web'
import { CallbackManager } from '@langchain/core/callbacks/manager'
import type { ToolRunnableConfig } from '@langchain/core/tools'
import type { Progress, ServerLog } from '@x/mcp-client'
import { serverTitle, type McpToolOrigin, type McpToolSource } from '../base/tool-source.ts'
import type { ToolCaller } from './live-call.ts'

/** A server tells how far a call is (`notifications/progress`). */
export interface McpProgressEvent extends Progress {
  readonly type: 'mcp_progress'
  /** Its slug, else its name. */
  readonly server: string
  /** The server's name for the tool. */
  readonly tool: string
  readonly toolCallId: string | undefined
}

/** A server logs something while a call goes on (`notifications/message`). */
export interface McpLogEvent extends Omit<ServerLog, 'origin'> {
  readonly type: 'mcp_log'
  /** Its slug, else its name. */
  readonly server: string
  /** The server's name for the tool that was under way. */
  readonly tool: string
  readonly toolCallId: string | undefined
}

/** Tells a run what a server says during a call. */
interface RunNews {
  readonly onProgress: (progress: Progress) => void
  /** From now on nothing is told. */
  end(): void
}

/**
 * What a server says during a call goes to the custom stream of the graph (`streamMode: 'custom'`) and to
 * the callbacks of the run, as custom events of the same name. Undefined where nobody could hear it.
 */
export function runNewsOf(
  config: ToolRunnableConfig,
  {
    origin,
    source,
    caller,
  }: {
    readonly origin: McpToolOrigin
    readonly source: McpToolSource
    readonly caller: ToolCaller
  },
): RunNews | undefined {
  const writer =
    'writer' in config && typeof config.writer === 'function' ? config.writer : undefined
  const callbacks = hasListeners(config) ? config : undefined
  if (writer === undefined && callbacks === undefined) return undefined
  const about = {
    server: serverTitle(origin.server),
    tool: origin.toolName,
    toolCallId: config.toolCall?.id,
  }
  let isOver = false
  const tell = (event: McpProgressEvent | McpLogEvent): void => {
    if (isOver) return
    try {
      writer?.(event)
    } catch {
      // The stream was closed by whoever read it: the call goes on.
    }
    if (callbacks === undefined) return
    dispatchCustomEvent(event.type, event, callbacks).catch(() => {}) // a listener's own failure
  }
  const unlisten = source.on?.(
    'serverLog',
    ({ origin: of, ...log }) => {
      if (of === undefined || isFor(caller, of)) tell({ type: 'mcp_log', ...about, ...log })
    },
    config,
  )
  return {
    onProgress: ({ progress, total, message }) =>
      tell({
        type: 'mcp_progress',
        ...about,
        progress,
        ...(total !== undefined && { total }),
        ...(message !== undefined && { message }),
      }),
    end() {
      isOver = true
      unlisten?.()
    },
  }
}

/** A log that names no call is for all calls of its session, unless they are of several threads. */
function isFor(caller: ToolCaller, { call, owner }: NonNullable<ServerLog['origin']>): boolean {
  return call === undefined ? owner === caller.owner : caller.isSameAs(call.caller)
}

/** Without the run of a parent there is nothing that a custom event could belong to. */
function hasListeners({ callbacks }: ToolRunnableConfig): boolean {
  return (
    callbacks instanceof CallbackManager &&
    callbacks.handlers.length > 0 &&
    callbacks.getParentRunId() !== undefined
  )
}
