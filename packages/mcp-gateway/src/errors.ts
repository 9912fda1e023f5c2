import { assertOptions, CodedError, withoutErrorLink, type Check } from '@x/internal'

/** Kinds of errors of the gateway. They stay the same, so that callers can switch on them. */
export type GatewayErrorCode =
  | 'CONFIG' // an option or a line of the configuration file is wrong
  | 'LISTEN' // the address cannot be listened on
  | 'CLOSED' // the gateway was closed
  | 'UNAVAILABLE' // the store, or an agent, cannot be reached now
  | 'LIMIT' // larger than a limit allows
  | 'QUOTA' // the caller has no room left
  | 'REFUSED' // an address that must not be contacted
  | 'NOT_FOUND' // it does not exist, or not for this caller
  | 'NO_USER' // the call has no token of a user that could be exchanged
  | 'TOKEN_EXPIRED' // the user has to sign in again before tokens for other servers can be requested
  | 'WRONG_AUDIENCE' // tokens of users for this server are not requested, or not given
  | 'EXCHANGE_REFUSED' // the authorization server refused the exchange of a token

export interface GatewayErrorOptions extends ErrorOptions {
  /** Place in the configuration, such as `agents.sources[0].url`. */
  readonly path?: string | undefined
  /** Server that a token of a user was requested for. */
  readonly audience?: string | undefined
}

const BRAND = Symbol.for('mcp-gateway.GatewayError')

/** The message says what was wrong, where, and what to do. It never holds a token, a text of a user, or a full id. */
export class GatewayError extends CodedError<GatewayErrorCode> {
  override readonly name = 'GatewayError'
  readonly path: string | undefined
  readonly audience: string | undefined

  constructor(code: GatewayErrorCode, message: string, options: GatewayErrorOptions = {}) {
    super(code, message, options)
    this.path = options.path
    this.audience = options.audience
    Object.defineProperty(this, BRAND, { value: true })
  }

  /** Recognises errors of other copies of this package too. */
  static is(value: unknown): value is GatewayError {
    return typeof value === 'object' && value !== null && BRAND in value
  }
}

/** Errors about what the caller gave, or has. */
const OF_CALLER: ReadonlySet<GatewayErrorCode> = new Set([
  'LIMIT',
  'QUOTA',
  'REFUSED',
  'NOT_FOUND',
  'NO_USER',
  'TOKEN_EXPIRED',
])

/**
 * Returns what a caller may read about an error of the gateway, without a full stop. The messages of most kinds name hosts
 * and folders: they are for its log only.
 */
export function textForCaller(error: GatewayError): string {
  return isOfCaller(error)
    ? withoutErrorLink(error.message)
    : 'The data of the gateway cannot be reached now'
}

/** Returns whether an error is about what the caller gave, or has. No log needs to contain it. */
export function isOfCaller(error: unknown): error is GatewayError {
  return GatewayError.is(error) && OF_CALLER.has(error.code)
}

/** Options with their defaults. */
export type Complete<Options> = {
  readonly [Key in keyof Options]-?: Exclude<Options[Key], undefined>
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
  const toError = ({ path, message }: { path: string; message: string }): GatewayError =>
    new GatewayError('CONFIG', `${owner}: ${message}`, path === '' ? {} : { path })
  assertOptions(toError, given, checks)
}
