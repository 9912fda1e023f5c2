import { dispatchCustomEvent } from '@langchain/core/callbacks/dispatch/web'
import { CallbackManager } from '@langchain/core/callbacks/manager'
import type { ToolRunnableConfig } from '@langchain/core/tools'
import { definedFields } from '@x/internal'
import type { Progress, ServerLog } from '@x/mcp-client'
import { serverTitle, type McpToolSource } from '../tool-source.ts'
import type { ToolCaller } from './live-call.ts'

interface EventOfCall {
  /** Slug of the server, else its name. */
  readonly server: string
  /** Name of the running tool on the server. */
  readonly tool: string
  readonly toolCallId: string | undefined
}

/** Progress of a call (`notifications/progress`). */
export interface McpProgressEvent extends EventOfCall, Progress {
  readonly type: 'mcp_progress'
}

/** A log message of a server during a call (`notifications/message`). */
export interface McpLogEvent extends EventOfCall, Omit<ServerLog, 'origin'> {
  readonly type: 'mcp_log'
}

/**
 * Emits notifications of a call to the custom stream of the graph (`streamMode: 'custom'`) and to the
 * callbacks of the run, as custom events of the same name, until `end()`. Returns undefined if neither exists.
 */
export function runNotificationsFor(
  config: ToolRunnableConfig,
  source: McpToolSource,
  caller: ToolCaller,
): { readonly onProgress: (progress: Progress) => void; end(): void } | undefined {
  const writer =
    'writer' in config && typeof config.writer === 'function' ? config.writer : undefined
  const { callbacks: manager } = config
  // Custom events need a parent run.
  const hasListeners =
    manager instanceof CallbackManager &&
    manager.handlers.length > 0 &&
    manager.getParentRunId() !== undefined
  const callbacks = hasListeners ? config : undefined
  if (writer === undefined && callbacks === undefined) return undefined
  const about = {
    server: serverTitle(caller.origin.server),
    tool: caller.origin.toolName,
    toolCallId: caller.toolCallId,
  }
  let isOver = false
  const emit = (event: McpProgressEvent | McpLogEvent): void => {
    if (isOver) return
    try {
      writer?.(event)
    } catch {
      // The reader closed the stream; the call continues.
    }
    if (callbacks === undefined) return
    dispatchCustomEvent(event.type, event, callbacks).catch(() => {}) // failure of a listener
  }
  const unlisten = source.on?.(
    'serverLog',
    ({ origin: of, ...log }) => {
      if (of === undefined || isFor(caller, of)) emit({ type: 'mcp_log', ...about, ...log })
    },
    config,
  )
  return {
    onProgress: ({ progress, total, message }) =>
      emit({
        type: 'mcp_progress',
        ...about,
        progress,
        ...definedFields({ total, message }),
      }),
    end() {
      isOver = true
      unlisten?.()
    },
  }
}

/** A log message without a call belongs to all open calls of its session, unless they are of several threads. */
function isFor(caller: ToolCaller, { call, openCalls }: NonNullable<ServerLog['origin']>): boolean {
  return call === undefined
    ? openCalls.every((open) => open.caller?.owner === caller.owner)
    : caller.isSameAs(call.caller)
}
