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
  assertGrants(grants)
  const rows = grants.map(({ token, agentIds }) => {
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

/** @throws TypeError for a wrong or repeated token. The text contains no part of a token */
function assertGrants(grants: readonly DebugStateTokenGrant[]): void {
  const first = new Map<string, number>()
  for (const [index, { token, agentIds }] of grants.entries()) {
    const refuse = (reason: string): TypeError => new TypeError(`\`tokens[${index}]\`: ${reason}`)
    if (!/^[\x21-\x7E]{16,4096}$/.test(token)) {
      throw refuse('a token has 16 to 4096 visible ASCII characters')
    }
    if (agentIds.length === 0) throw refuse('the token has no agent')
    const wrong = agentIds === '*' ? -1 : agentIds.findIndex((id) => !isAgentId(id))
    if (wrong !== -1) throw refuse(`agent ${wrong + 1}: ${AGENT_ID_RULE}`)
    const earlier = first.get(token)
    if (earlier !== undefined) {
      throw refuse(`\`tokens[${earlier}]\` has the same token: write all its agents there`)
    }
    first.set(token, index)
  }
}
