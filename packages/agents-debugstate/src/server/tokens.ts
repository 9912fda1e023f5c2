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
  assertGrants(grants, (index) => `\`tokens[${index}]\``)
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

/** @throws TypeError for a wrong or repeated token, with its place. The text contains no part of a token */
function assertGrants(
  grants: readonly DebugStateTokenGrant[],
  getPlace: (index: number) => string,
): void {
  const first = new Map<string, number>()
  for (const [index, { token, agentIds }] of grants.entries()) {
    const refuse = (reason: string): TypeError => new TypeError(`${getPlace(index)}: ${reason}`)
    if (!/^[\x21-\x7E]{16,4096}$/.test(token)) {
      throw refuse('a token has 16 to 4096 visible ASCII characters')
    }
    if (agentIds.length === 0) throw refuse('the token has no agent')
    const wrong = agentIds === '*' ? -1 : agentIds.findIndex((id) => !isAgentId(id))
    if (wrong !== -1) throw refuse(`agent ${wrong + 1}: ${AGENT_ID_RULE}`)
    const earlier = first.get(token)
    if (earlier !== undefined) {
      throw refuse(`${getPlace(earlier)} has the same token: write all its agents there`)
    }
    first.set(token, index)
  }
}

/**
 * Parses a token list. Each line is `<token> <agentId>[,<agentId>…]`, with `*` for every agent. Empty lines and
 * lines that start with `#` are ignored.
 *
 * @throws TypeError that names `source` and the line, and never a token
 */
export function parseTokenList(text: string, source: string): readonly DebugStateTokenGrant[] {
  const rows = text
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/)
    .map((line, index) => ({ words: line.trim().split(/\s+/), place: `line ${index + 1}` }))
    .filter(({ words: [first = ''] }) => first !== '' && !first.startsWith('#'))
  if (rows.length === 0) throw new TypeError(`${source} has no token. ${LINE_RULE}`)
  const grants = rows.map(({ words: [token = '', agents, ...rest], place }) => {
    const refuse = (reason: string): TypeError =>
      new TypeError(`${source}, ${place}: ${reason}. ${LINE_RULE}`)
    if (agents === undefined) throw refuse('the agents are missing after the token')
    if (rest.length > 0) throw refuse('there is one space too many')
    return { token, agentIds: agents === '*' ? agents : agents.split(',') } as const
  })
  assertGrants(grants, (index) => `${source}, ${rows[index]?.place}`)
  return grants
}

const LINE_RULE = 'A line is: <token> <agentId>,<agentId>, with * for all agents'
