import { isRecord } from '@x/internal'
import { McpToolError, type McpToolErrorCode, type ToolOutcome } from '../mcp-tool-error.ts'
import { serverTitle, type McpToolOrigin } from '../tool-origin.ts'
import type { ToolResult } from '../catalogue/tool-source.ts'

/** A question of a server, as it came. */
export interface Question {
  readonly method: string
  readonly params?: Readonly<Record<string, unknown>> | undefined
}

/** The server wants a person before it goes on. */
export interface AskedOutcome {
  readonly kind: 'asked'
  readonly requests: Readonly<Record<string, Question>>
  /** What handlers of ours have answered already, beside these. */
  readonly answered: Readonly<Record<string, unknown>>
  /** Opaque; not for people. */
  readonly requestState?: string
  /** The call is still open, in the process that made it. */
  readonly isHeld: boolean
}

/** A person has to grant access first; nothing was executed. */
export interface AuthorizationOutcome {
  readonly kind: 'authorization'
  readonly url: string
  /** Why what a person came back with was of no use. */
  readonly problem?: string
}

/**
 * What became of one round of a call: plain data, because a checkpoint keeps it, and another process may
 * go on with it.
 */
export type CallOutcome =
  | { readonly kind: 'result'; readonly result: ToolResult }
  | AskedOutcome
  | AuthorizationOutcome
  | FailedOutcome

export interface FailedOutcome {
  readonly kind: 'failed'
  readonly code: McpToolErrorCode
  readonly message: string
  readonly outcome?: ToolOutcome
  readonly artifact?: unknown
}

export function failedOutcomeFrom(error: McpToolError): FailedOutcome {
  const { code, message, outcome, artifact } = error
  return {
    kind: 'failed',
    code,
    message,
    ...(outcome !== undefined && { outcome }),
    ...(artifact !== undefined && { artifact }),
  }
}

export function errorFrom(
  failed: FailedOutcome,
  { server, toolName }: McpToolOrigin,
): McpToolError {
  const { code, message, outcome, artifact } = failed
  return new McpToolError(code, message, { server, toolName, outcome, artifact })
}

/** What LangGraph and the store have lost may have been executed. */
export function unknownOutcome({ server, toolName }: McpToolOrigin): FailedOutcome {
  return {
    kind: 'failed',
    code: 'OUTCOME_UNKNOWN',
    outcome: 'unknown',
    message: `MCP tool "${toolName}" of server "${serverTitle(server)}" failed. The call was sent by a run that ended before its answer was kept: it may or may not have been executed. Check what happened before you repeat it.`,
  }
}

/** From a checkpoint or a store, which only hold what we put there: so it is looked at, not taken apart. */
export function callOutcomeFrom(value: unknown): CallOutcome {
  if (isCallOutcome(value)) return value
  throw new TypeError('The checkpoint holds something else than the outcome of an MCP call')
}

function isCallOutcome(value: unknown): value is CallOutcome {
  if (!isRecord(value)) return false
  switch (value['kind']) {
    case 'result':
      return isRecord(value['result'])
    case 'asked':
      return isRecord(value['requests']) && isRecord(value['answered'])
    case 'authorization':
      return typeof value['url'] === 'string'
    case 'failed':
      return typeof value['code'] === 'string' && typeof value['message'] === 'string'
    default:
      return false
  }
}
