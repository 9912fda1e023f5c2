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
export type Access = (agentId: string) => boolean

/**
 * Looks up the access of a token. It compares digests in constant time, and always compares all tokens, so that
 * the response time says nothing about a token. `hono/bearer-auth` does not fit: it stops at the first match, and
 * takes fewer characters than PROTOCOL.md allows.
 */
export class TokenTable {
  #rows: readonly Row[]

  /** @throws TypeError for an empty list, and for a wrong or repeated token */
  constructor(grants: readonly DebugStateTokenGrant[]) {
    this.#rows = createRows(grants)
  }

  /** Replaces all tokens, from the next request on. @throws TypeError as the constructor does, without a change */
  replace(grants: readonly DebugStateTokenGrant[]): void {
    this.#rows = createRows(grants)
  }

  /** Returns `undefined` for a missing or unknown token. */
  getAccess(authorization: string | null): Access | undefined {
    const token = /^Bearer +([\x21-\x7E]+)$/i.exec(authorization ?? '')?.[1]
    if (token === undefined) return undefined
    const given = digest(token)
    let access: Access | undefined
    for (const row of this.#rows) {
      if (timingSafeEqual(row.digest, given)) access = row.access
    }
    return access
  }
}

interface Row {
  readonly digest: Buffer
  readonly access: Access
}

function createRows(grants: readonly DebugStateTokenGrant[]): readonly Row[] {
  if (grants.length === 0) {
    throw new TypeError('`tokens` is empty: leave it out for a service without tokens')
  }
  const first = new Map<string, number>()
  return grants.map((grant, index) => {
    const { token, agentIds } = grant
    const error = validateGrant(grant)
    if (error !== undefined) throw new TypeError(`\`tokens[${index}]\`: ${error}`)
    const earlier = first.get(token)
    if (earlier !== undefined) {
      throw new TypeError(`\`tokens[${index}]\` has the same token as \`tokens[${earlier}]\``)
    }
    first.set(token, index)
    const known = new Set(agentIds)
    return { digest: digest(token), access: (id) => agentIds === '*' || known.has(id) }
  })
}

function digest(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}

/** Returns the error in a grant, if any. The text contains no part of the token. */
function validateGrant({ token, agentIds }: DebugStateTokenGrant): string | undefined {
  if (!/^[\x21-\x7E]{16,4096}$/.test(token))
    return 'a token has 16 to 4096 visible ASCII characters'
  if (agentIds === '*') return undefined
  if (agentIds.length === 0) return 'the token has no agent'
  const wrong = agentIds.findIndex((id) => !isAgentId(id))
  return wrong === -1 ? undefined : `agent ${wrong + 1}: ${AGENT_ID_RULE}`
}

/**
 * Parses a token list. Each line is `<token> <agentId>[,<agentId>…]`, with `*` for every agent. Empty lines and
 * lines that start with `#` are ignored.
 *
 * @throws TypeError that names `source` and the line, and never a token
 */
export function parseTokenList(text: string, source: string): readonly DebugStateTokenGrant[] {
  const grants: DebugStateTokenGrant[] = []
  const lineOfToken = new Map<string, number>()
  const lines = text.replace(/^\uFEFF/, '').split(/\r?\n/)
  for (const [index, line] of lines.entries()) {
    const [token = '', agents, ...rest] = line.trim().split(/\s+/)
    if (token === '' || token.startsWith('#')) continue
    const fail = (reason: string): TypeError =>
      new TypeError(`${source}, line ${index + 1}: ${reason}`)
    if (agents === undefined) throw fail(`the agents are missing after the token. ${LINE_RULE}`)
    if (rest.length > 0) throw fail(`there is one space too many. ${LINE_RULE}`)
    const earlier = lineOfToken.get(token)
    if (earlier !== undefined) {
      throw fail(`line ${earlier} has the same token: write all its agents in one line`)
    }
    lineOfToken.set(token, index + 1)
    const grant = { token, agentIds: agents === '*' ? agents : agents.split(',') } as const
    const error = validateGrant(grant)
    if (error !== undefined) throw fail(error)
    grants.push(grant)
  }
  if (grants.length === 0) throw new TypeError(`${source} has no token. ${LINE_RULE}`)
  return grants
}

const LINE_RULE = 'A line is: <token> <agentId>,<agentId>, with * for all agents'
