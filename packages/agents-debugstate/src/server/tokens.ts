import { hash, timingSafeEqual } from 'node:crypto'
import { AGENT_ID_RULE, isAgentId } from './protocol.ts'

/** A bearer token, and the agents that it gives access to. */
export interface DebugStateTokenGrant {
  /** 16 to 4096 visible ASCII characters. */
  readonly token: string
  /** `'*'` means every agent. */
  readonly agentIds: readonly string[] | '*'
}

/** Returns whether a request may access the data of an agent. */
type Access = (agentId: string) => boolean

/** Returns the access of a request by its `Authorization` header, or `undefined` for a missing or unknown token. */
export type GetAccess = (authorization: string | null) => Access | undefined

/** Text of messages: the rule that `isToken()` checks. */
export const TOKEN_RULE = 'a token has 16 to 4096 visible ASCII characters'

/** Returns whether a service can take the text for a token. */
export function isToken(text: string): boolean {
  return /^[\x21-\x7E]{16,4096}$/.test(text)
}

/**
 * Creates the check of a list of tokens. It compares digests in constant time, and always compares all tokens, so
 * that the response time says nothing about a token. `hono/bearer-auth` does not fit: it stops at the first match,
 * and takes fewer characters than PROTOCOL.md allows.
 *
 * @throws TypeError for an empty list, and for a wrong or repeated token
 */
export function createAccessCheck(grants: readonly DebugStateTokenGrant[]): GetAccess {
  if (grants.length === 0) {
    throw new TypeError('`tokens` is empty: leave it out for a service without tokens')
  }
  const seen = new Set<string>()
  const rows = grants.map(({ token, agentIds }, index) => {
    const refuse = (reason: string): TypeError => new TypeError(`\`tokens[${index}]\`: ${reason}`)
    if (!isToken(token)) throw refuse(TOKEN_RULE)
    if (agentIds.length === 0) throw refuse('the token has no agent')
    if (agentIds !== '*' && !agentIds.every(isAgentId)) throw refuse(AGENT_ID_RULE)
    if (seen.has(token))
      throw refuse('an earlier entry has the same token: write all its agents there')
    seen.add(token)
    const known = new Set(agentIds)
    const access: Access = (id) => agentIds === '*' || known.has(id)
    return { digest: digest(token), access }
  })
  return (authorization) => {
    const token = /^Bearer +([\x21-\x7E]+)$/i.exec(authorization ?? '')?.[1]
    if (token === undefined) return undefined
    const given = digest(token)
    let access: Access | undefined
    for (const row of rows) {
      if (timingSafeEqual(row.digest, given)) access = row.access
    }
    return access
  }
}

function digest(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}
