import type { CallToolResult } from '@modelcontextprotocol/server'

import type { ToolDefinition } from '../../tools/tool-definition.ts'
import type { Caller } from '../caller.ts'

/** A tool of the gateway itself: no agent runs for it, and whoever may call may call it. */
export interface OwnTool {
  readonly definition: ToolDefinition
  /** Answers also arguments that do not fit. */
  call(caller: Caller, args: Readonly<Record<string, unknown>>): Promise<CallToolResult>
}
