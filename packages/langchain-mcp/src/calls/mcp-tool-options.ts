import type { InputResolver } from '../argument-properties/run-input.ts'
import type { ElicitationToInterrupt } from '../interrupts/elicitation-to-interrupt.ts'
import type { McpToolError } from '../mcp-tool-error.ts'
import type { SchemaProjection } from '../schema/schema-projection.ts'
import type { ToolHooks } from './tool-hooks.ts'
import type { ToolOutputOptions } from './tool-output.ts'

/**
 * What the model is told of a failure; `undefined` for the error's own message, which is written for it.
 * What it throws fails the call.
 */
export type ToolErrorHandler = (
  error: McpToolError,
) => string | undefined | Promise<string | undefined>

/** How the tools behave when they are called. */
export interface McpToolOptions extends ToolOutputOptions, ToolHooks {
  /**
   * What becomes of a failure:
   * - `'message'`: a `ToolMessage` with `status: 'error'` that tells the model what happened and what to do.
   * - `'throw'`: an `McpToolError`, which ends the run of `createAgent()`. In a graph with a `ToolNode` of your
   *   own, set `handleToolErrors: false` there.
   * - a function words the message, or throws. The `ToolNode` and middleware around the call handle what it
   *   throws.
   *
   * Mistakes of the developer (`CONFIG`, `NO_RUN`, `CLOSED`, `INVALID_STATIC_ARGUMENT`) end the run in any
   * case, and a function is not asked. Arguments that do not fit (`ToolInputParsingException`) and errors that
   * do not come from MCP are thrown. @default 'message'
   */
  readonly onToolError?: 'message' | 'throw' | ToolErrorHandler | undefined
  /** Limit of one call in milliseconds; a `timeout` of the run counts as well. @default the client's own */
  readonly timeoutMs?: number | undefined
  /**
   * Tells the model when the server lost the session that it used before: what it kept there is gone. The
   * artifact says so in any case. Live tools know (`createMcpTools`); of a client that was handed in, the
   * client's own event `sessionReplaced` tells. @default false
   */
  readonly tellSessionReplaced?: boolean | undefined
  /**
   * What of a tool's schema the model is shown: all that OpenAI and Anthropic take, what a given provider
   * takes, everything, or what a function makes of it. Arguments are checked against the whole schema in
   * any case; `tool.schemaNotes` says what is not shown. @default 'common'
   */
  readonly projection?: SchemaProjection | undefined
  /**
   * The agent's input, for `argumentProperties` that take values from it. Inside `runInSessionScope` it is
   * asked once per run. @default the state of the graph, as the node that calls the tool sees it
   */
  readonly input?: InputResolver | undefined
  /**
   * Lets the server ask a person, by an interrupt of the graph; its `handlers` belong to the client. `false`
   * for none. @default `elicitationToInterrupt()` where the clients are made here, unless `handlers` answer
   */
  readonly elicitation?: ElicitationToInterrupt | false | undefined
}
