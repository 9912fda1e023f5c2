import type { ResponseHeaders } from '../../http/exchange.ts'

/** One challenge of a `WWW-Authenticate` header (RFC 9110, section 11.6.1). */
export interface Challenge {
  /** Lower case. */
  readonly scheme: string
  /** Names in lower case; a parameter that is given twice keeps its first value. */
  readonly parameters: ReadonlyMap<string, string>
}

/** What a Bearer challenge says (RFC 6750, section 3; RFC 9728, section 5.1). */
export interface BearerChallenge {
  readonly error?: string | undefined
  readonly scope?: string | undefined
  readonly resourceMetadata?: string | undefined
}

/** Longer ones are cut: nothing sensible is that long, and what follows would be work for nothing. */
const MAX_LENGTH = 8192

/** Every challenge of one header value. What cannot be read is left out, the rest stays. */
export function challengesFrom(value: string): Challenge[] {
  const challenges: { scheme: string; parameters: Map<string, string> }[] = []
  const token = /([!#$%&'*+.^_`|~0-9A-Za-z-]+)(\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*)))?/y
  const text = value.slice(0, MAX_LENGTH)
  let position = 0
  while (position < text.length) {
    token.lastIndex = position
    const match = token.exec(text)
    if (match === null) {
      position += 1 // a space, a comma, or what is none of ours
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

/** The first Bearer challenge of a response, if there is one. */
export function bearerChallengeFrom(headers: ResponseHeaders): BearerChallenge | undefined {
  const value = headers['www-authenticate']
  const values = typeof value === 'string' ? [value] : (value ?? [])
  const bearer = values.flatMap(challengesFrom).find(({ scheme }) => scheme === 'bearer')
  if (bearer === undefined) return undefined
  return {
    error: bearer.parameters.get('error'),
    scope: bearer.parameters.get('scope'),
    resourceMetadata: bearer.parameters.get('resource_metadata'),
  }
}
