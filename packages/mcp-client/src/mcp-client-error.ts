import { optionProblem } from '@x/internal'
import type { Check } from '@x/internal'
import type { TransportErrorCode } from '@x/mcp-transport'

/** Why an operation failed. Stable: callers switch on it. */
export type McpClientErrorCode =
  | TransportErrorCode
  | 'CONFIG' // a config, a URL or a directory entry that cannot be used; nothing was sent
  | 'NOT_FOUND' // the directory knows no such server
  | 'REENTRANT' // the client was called from inside its own handshake
  | 'NO_RUN' // a client of a `SessionPool` was called outside a run, or in one that has ended
  | 'INVALID_LIST' // a paginated list that does not end
  | 'INVALID_OUTPUT' // a tool's result that does not fit its output schema; the tool has run

/**
 * What became of the request on the server, over all attempts.
 *
 * - `not-executed`: it did not run; sending it again is safe
 * - `unknown`: it may or may not have run, wholly or in part; look before you repeat it
 * - `executed`: it has run, but its result cannot be used (`INVALID_OUTPUT`)
 */
export type OperationOutcome = 'not-executed' | 'unknown' | 'executed'

export interface McpClientErrorOptions extends ErrorOptions {
  readonly server: string
  readonly tool?: string | undefined
  readonly outcome?: OperationOutcome | undefined
  readonly retryAfterMs?: number | undefined
  readonly result?: unknown
  readonly stderr?: string | undefined
}

const BRAND = Symbol.for('mcp-client.McpClientError')

/**
 * An operation did not come to an answer. What the server *answered*, also with an error, is never one
 * of these: that is the SDK's `McpError`.
 *
 * `outcome: 'unknown'` is the one to handle: the tool may or may not have run.
 */
export class McpClientError extends Error {
  override readonly name = 'McpClientError'
  readonly code: McpClientErrorCode
  /** Slug, name or URL of the server, as configured; without query. */
  readonly server: string
  readonly tool: string | undefined
  /** Undefined only for errors that belong to no request. */
  readonly outcome: OperationOutcome | undefined
  /** The delay that an overloaded server asked for, in milliseconds. */
  readonly retryAfterMs: number | undefined
  /** With `INVALID_OUTPUT`: what the tool gave. */
  readonly result: unknown
  /** The end of what a server on stdio wrote to its standard error, without the secrets it was given. */
  readonly stderr: string | undefined

  constructor(code: McpClientErrorCode, message: string, options: McpClientErrorOptions) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.code = code
    this.server = options.server
    this.tool = options.tool
    this.outcome = options.outcome
    this.retryAfterMs = options.retryAfterMs
    this.result = options.result
    this.stderr = options.stderr
    Object.defineProperty(this, BRAND, { value: true })
  }

  /** `instanceof` that also knows errors made by another copy of this package. */
  static is(value: unknown): value is McpClientError {
    return typeof value === 'object' && value !== null && BRAND in value
  }
}

/**
 * Refuses options that are unknown or have a wrong value.
 *
 * @param owner the function or class that takes the options
 * @throws McpClientError `CONFIG`
 */
export function assertClientOptions(
  owner: string,
  given: unknown,
  {
    checks,
    server = '(unnamed)',
  }: { readonly checks: Readonly<Record<string, Check>>; readonly server?: string },
): void {
  const problem = optionProblem(given, checks)
  if (problem === undefined) return
  throw new McpClientError('CONFIG', `${owner}: ${problem.message}`, {
    server,
    outcome: 'not-executed',
  })
}
