import type { RunnableConfig } from '@langchain/core/runnables'
import { isRecord, withoutErrorLink } from '@x/internal'
import { McpClientError, type AuthProviderOf } from '@x/mcp-client'
import { TransportError } from '@x/mcp-transport'
import { causesOf } from '../graph/authorization-to-interrupt.ts'
import { currentCall, hasEnded, type CallContext } from '../graph/call-context.ts'

/** The server that a token is for. */
interface TokenTarget {
  readonly server: string
  readonly resource: string
}

/** Gets tokens for servers in the name of the user of a run, such as `context.credentials` of a gateway. */
export interface UserCredentials {
  token(target: TokenTarget): Promise<{ readonly accessToken: string }>
  /** The server refused a token: the next `token()` returns another one. */
  rejected(target: TokenTarget & { readonly accessToken: string }): void
}

/** The config of a call, with the context of its run. */
type ConfigOfCall = RunnableConfig & { readonly context?: unknown }

/**
 * An `authProvider` for servers inside a graph: each call carries a token of its user, for its server. The credentials are
 * in the context of the run, so no state or checkpoint has them, and each resume supplies them again. Needs the option
 * `principal`.
 *
 * @param credentialsOf returns the credentials of a call. The default is `context.credentials`, as a gateway sets it
 * @example
 * ```ts
 * import { createMcpTools, userTokens } from '@x/langchain-mcp'
 *
 * const mcp = createMcpTools({
 *   servers: { orders: { url: 'https://orders.example/mcp' } },
 *   authProvider: userTokens(),
 *   principal: ({ configurable }) => configurable?.['principal'].id,
 * })
 * ```
 */
export function userTokens(
  credentialsOf: (config: ConfigOfCall) => UserCredentials | undefined = credentialsInContext,
): AuthProviderOf {
  return ({ mcpUrl, name, slug }, scope) => {
    if (typeof mcpUrl !== 'string') return undefined
    const server = slug ?? name ?? withoutQuery(mcpUrl)
    if (scope?.principal === undefined) throw noPrincipal(server)
    return new UserTokens({ server, resource: mcpUrl }, scope.principal, credentialsOf)
  }
}

/** A query may hold a secret. */
function withoutQuery(url: string): string {
  const { origin, pathname } = new URL(url)
  return origin + pathname
}

/** Errors about the token of a user, such as an expired sign-in. The function returns whether a call has other credentials. */
const errorsOfUsers = new WeakMap<Error, (config: ConfigOfCall) => boolean>()

function noPrincipal(server: string): McpClientError {
  const message =
    currentCall()?.lacksPrincipal === true
      ? `userTokens() of "${server}": this list has no principal: pass the config of the run`
      : `userTokens(): users would share the session with "${server}". Give createMcpTools() the option \`principal\``
  // A client gives its callers copies of the error, which have the same cause.
  const cause = new Error('Without a principal, nothing says whose token is needed')
  errorsOfUsers.set(cause, () => false)
  return new McpClientError('CONFIG', message, { server, outcome: 'not-executed', cause })
}

/** Returns true if there was no token of the user of a call, or no user: nothing is known about the server then. */
export function isErrorOfUser(error: unknown): boolean {
  return causesOf(error).some((cause) => errorsOfUsers.has(cause))
}

/** Limit of attempts: each of them needs another call without a token, which was sent meanwhile. */
const MAX_ATTEMPTS = 100

/**
 * Sends something for a call, and again while only calls with other credentials of the same user had no token: calls share
 * handshakes and lists.
 */
export async function withOwnToken<T>(config: ConfigOfCall, send: () => Promise<T>): Promise<T> {
  let before: Error | undefined
  for (let attempt = 1; ; attempt++) {
    try {
      return await send()
    } catch (error) {
      const isUnsent = McpClientError.is(error) && error.outcome === 'not-executed'
      const ofAnother = causesOf(error).find((cause) => errorsOfUsers.get(cause)?.(config))
      const isNew = ofAnother !== undefined && ofAnother !== before
      if (!isUnsent || !isNew || attempt === MAX_ATTEMPTS) throw error
      before = ofAnother
    }
  }
}

/**
 * Returns true if the server refused a token, and no sign-in failed: the user may have another token a moment later.
 * That is also the case if the graph was interrupted for a sign-in.
 */
export function isTokenRefused(error: unknown): boolean {
  if (!McpClientError.is(error) || error.code !== 'UNAUTHORIZED') return false
  const ofSignIn = causesOf(error).find(({ name }) => name === 'AuthError')
  return ofSignIn === undefined || ('code' in ofSignIn && ofSignIn.code === 'TOKEN_REFUSED')
}

/**
 * Asks the credentials of the current call, because a session outlives the call that opened it. Two requests have no call
 * any more: the one that opens the listening stream again, and the one that ends the session. They get the credentials of
 * the last call of their user.
 */
class UserTokens {
  readonly #target: TokenTarget
  readonly #principal: string
  readonly #credentialsOf: (config: ConfigOfCall) => UserCredentials | undefined
  #lastCall: CallContext | undefined

  constructor(
    target: TokenTarget,
    principal: string,
    credentialsOf: (config: ConfigOfCall) => UserCredentials | undefined,
  ) {
    this.#target = target
    this.#principal = principal
    this.#credentialsOf = credentialsOf
  }

  async token({ refused }: { readonly refused?: string | undefined } = {}): Promise<
    string | undefined
  > {
    const call = currentCall()
    // Requests outside a call have no user.
    if (call === undefined || call.scope.principal !== this.#principal) return undefined
    if (!hasEnded(call)) this.#lastCall = call
    const { config } = hasEnded(call) ? (this.#lastCall ?? call) : call
    try {
      return await this.#tokenFor(config, refused)
    } catch (cause) {
      const error = this.#noToken(cause)
      errorsOfUsers.set(error, (other) => this.#hasOthers(other, config))
      throw error
    }
  }

  #hasOthers(config: ConfigOfCall, than: ConfigOfCall): boolean {
    try {
      return config !== than && this.#credentialsOf(config) !== this.#credentialsOf(than)
    } catch {
      return true // the call finds out itself
    }
  }

  async #tokenFor(config: ConfigOfCall, refused: string | undefined): Promise<string> {
    const credentials = this.#credentialsOf(config)
    if (credentials === undefined) {
      throw new Error(
        'The call has no credentials of a user. Put them in the context of the run, and again of each resume',
      )
    }
    if (refused !== undefined) credentials.rejected({ ...this.#target, accessToken: refused })
    return accessTokenOf(await credentials.token(this.#target))
  }

  /** Names the audience: the server, and its URL without the query, which may hold a secret. */
  #noToken(cause: unknown): TransportError {
    const { server, resource } = this.#target
    const url = withoutQuery(resource)
    const reason = withoutErrorLink(cause instanceof Error ? cause.message : String(cause))
    const isMistake = TransportError.is(cause) && cause.code === 'CONFIG'
    const code = isMistake ? 'CONFIG' : 'UNAUTHORIZED'
    const message = `No token of the user for "${server}" (${url}), so nothing was sent: ${reason}`
    return new TransportError(code, message, { url, outcome: 'not-executed', cause })
  }
}

/** Without a token, the request would be sent without a user. The error does not quote the value, which may be a token. */
function accessTokenOf(answer: unknown): string {
  const token = isRecord(answer) ? answer['accessToken'] : undefined
  if (typeof token === 'string' && token !== '') return token
  throw new TransportError(
    'CONFIG',
    'The credentials gave none. token() returns a promise of { accessToken }, with a text that is not empty',
  )
}

function credentialsInContext({ context }: ConfigOfCall): UserCredentials | undefined {
  const given = isRecord(context) ? context['credentials'] : undefined
  return isCredentials(given) ? given : undefined
}

function isCredentials(value: unknown): value is UserCredentials {
  return (
    typeof value === 'object' &&
    value !== null &&
    'token' in value &&
    typeof value.token === 'function' &&
    'rejected' in value &&
    typeof value.rejected === 'function'
  )
}
