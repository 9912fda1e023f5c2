import { optionProblem } from '@x/internal'
import type { Check } from '@x/internal'

/** What went wrong on our side of the wire. Stable: callers switch on it. */
export type GatewayErrorCode =
  | 'CONFIG' // an option or a line of the configuration file cannot be right
  | 'LISTEN' // the address cannot be listened on
  | 'CLOSED' // the gateway was closed
  | 'UNAVAILABLE' // the store, or an agent, cannot be reached now
  | 'LIMIT' // larger than a limit allows
  | 'QUOTA' // the caller has no room left
  | 'REFUSED' // an address that must not be asked
  | 'NOT_FOUND' // there is none, or none for this caller

export interface GatewayErrorOptions extends ErrorOptions {
  /** Where in the configuration, as a path: `agents.sources[0].url`. */
  readonly path?: string | undefined
}

const BRAND = Symbol.for('mcp-gateway.GatewayError')

/** The message names what was wrong, where, and what to do. It never holds a token, a text of a user, or a full id. */
export class GatewayError extends Error {
  override readonly name = 'GatewayError'
  readonly code: GatewayErrorCode
  readonly path: string | undefined

  constructor(code: GatewayErrorCode, message: string, options: GatewayErrorOptions = {}) {
    super(message, options)
    this.code = code
    this.path = options.path
    Object.defineProperty(this, BRAND, { value: true })
  }

  /** Also for an error of another copy of this package. */
  static is(value: unknown): value is GatewayError {
    return typeof value === 'object' && value !== null && BRAND in value
  }
}

/**
 * Refuses options that are unknown or have a wrong value.
 *
 * @param owner the function or class that takes the options
 * @throws GatewayError `CONFIG` with the path of the option
 */
export function assertGatewayOptions(
  owner: string,
  given: unknown,
  checks: Readonly<Record<string, Check>>,
): void {
  const problem = optionProblem(given, checks)
  if (problem === undefined) return
  const { path, message } = problem
  throw new GatewayError('CONFIG', `${owner}: ${message}`, path === '' ? {} : { path })
}
