/** Response headers as undici gives them: names in lower case. */
export type ResponseHeaders = Readonly<Record<string, string | readonly string[] | undefined>>

/** One challenge of a `WWW-Authenticate` header (RFC 9110, section 11.6.1). */
interface SchemeChallenge {
  /** In lower case. */
  readonly scheme: string
  /** Names in lower case. A repeated parameter keeps its first value. */
  readonly parameters: ReadonlyMap<string, string>
}

/** Parameters of a Bearer or DPoP challenge (RFC 6750, section 3; RFC 9728, section 5.1; RFC 9449, section 9). */
export interface Challenge {
  readonly error?: string | undefined
  readonly scope?: string | undefined
  readonly resourceMetadata?: string | undefined
}

/** A longer header is cut, so that a hostile server cannot make parsing expensive. */
const MAX_LENGTH = 8192

/** Parses all challenges of one header value. Skips what is malformed. */
export function parseChallenges(value: string): SchemeChallenge[] {
  const challenges: { scheme: string; parameters: Map<string, string> }[] = []
  const token = /([!#$%&'*+.^_`|~0-9A-Za-z-]+)(\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*)))?/y
  const text = value.slice(0, MAX_LENGTH)
  let position = 0
  while (position < text.length) {
    token.lastIndex = position
    const match = token.exec(text)
    if (match === null) {
      position += 1
      continue
    }
    position = token.lastIndex
    const [, name = '', assignment, quoted, plain = ''] = match
    const lower = name.toLowerCase()
    if (assignment === undefined) challenges.push({ scheme: lower, parameters: new Map() })
    else {
      const parameters = challenges.at(-1)?.parameters
      if (parameters === undefined || parameters.has(lower)) continue
      parameters.set(lower, quoted === undefined ? plain : quoted.replaceAll(/\\(.)/g, '$1'))
    }
  }
  return challenges
}

/** The Bearer and DPoP challenges of a response, merged; undefined if there are none. */
export function oauthChallenge(headers: ResponseHeaders): Challenge | undefined {
  const value = headers['www-authenticate']
  const values = typeof value === 'string' ? [value] : (value ?? [])
  const all = values.flatMap(parseChallenges)
  const found = ['dpop', 'bearer'].flatMap((name) => all.filter(({ scheme }) => scheme === name))
  if (found.length === 0) return undefined
  const first = (name: string): string | undefined =>
    found.find(({ parameters }) => parameters.has(name))?.parameters.get(name)
  return {
    error: first('error'),
    scope: first('scope'),
    resourceMetadata: first('resource_metadata'),
  }
}

/** `renew`: get another token; `step-up`: get more scopes; `nonce`: send again with the DPoP nonce of the refusal. */
export type AuthAttempt = 'renew' | 'step-up' | 'nonce'

/** Limit of the conformance suite for authorizations of one request. */
const MAX_AUTHORIZATIONS = 3

/**
 * Limits the attempts of one request: another token after the first 401, more scopes once for each set of
 * scopes, three authorizations in all. A nonce is used once for each token.
 */
export class AuthAttempts {
  #count = 0
  #isRenewed = false
  #isNonceUsed = false
  readonly #scopes: string[] = []

  /** What to do after a refusal; undefined if it is final. */
  next(status: number, challenge: Challenge | undefined): AuthAttempt | undefined {
    if (status === 401 && challenge?.error === 'use_dpop_nonce' && !this.#isNonceUsed) {
      this.#isNonceUsed = true
      return 'nonce'
    }
    if (this.#count >= MAX_AUTHORIZATIONS) return undefined
    if (status === 401 && !this.#isRenewed) {
      this.#isRenewed = true
      return this.#authorize('renew')
    }
    if (status !== 403 || challenge?.error !== 'insufficient_scope') return undefined
    const scopes = [...new Set(challenge.scope?.split(' '))].toSorted().join(' ')
    if (this.#scopes.includes(scopes)) return undefined
    this.#scopes.push(scopes)
    return this.#authorize('step-up')
  }

  #authorize(attempt: AuthAttempt): AuthAttempt {
    this.#count += 1
    this.#isNonceUsed = false
    return attempt
  }
}
