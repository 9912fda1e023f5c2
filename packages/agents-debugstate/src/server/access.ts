import { hash, timingSafeEqual } from 'node:crypto'
import { AGENT_ID_RULE, isAgentId } from './address.ts'

/** A bearer token, and the agents whose state it opens. */
export interface DebugStateTokenGrant {
  /** 16 to 4096 visible ASCII characters. */
  readonly token: string
  /** `'*'` is every agent. */
  readonly agentIds: readonly string[] | '*'
}

/** What a request may see: everything, some agents, or nothing. */
export type Access = (agentId: string) => boolean

/**
 * Looks up what a token opens. Compares digests, with every token, whatever the first ones say: neither the
 * time nor the position tells how close a guess was.
 */
export class TokenTable {
  #rows: readonly Row[]

  /** @throws TypeError for a list that could let nobody in, or anybody */
  constructor(grants: readonly DebugStateTokenGrant[]) {
    this.#rows = rowsFrom(grants)
  }

  /** From the next request on. @throws TypeError as the constructor does, and changes nothing */
  replace(grants: readonly DebugStateTokenGrant[]): void {
    this.#rows = rowsFrom(grants)
  }

  /** `undefined`: no or an unknown token. */
  accessOf(authorization: string | null): Access | undefined {
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

/** What is wrong with a grant; says nothing of what stands in it. `undefined`: nothing. */
export function faultOf({ token, agentIds }: DebugStateTokenGrant): string | undefined {
  if (!/^[\x21-\x7E]{16,4096}$/.test(token)) {
    return 'a token has 16 to 4096 visible ASCII characters'
  }
  if (agentIds === '*') return undefined
  if (agentIds.length === 0) return 'the token is for no agent'
  const wrong = agentIds.findIndex((id) => !isAgentId(id))
  return wrong === -1 ? undefined : `agent ${wrong + 1} of it: ${AGENT_ID_RULE}`
}

interface Row {
  readonly digest: Buffer
  readonly access: Access
}

function rowsFrom(grants: readonly DebugStateTokenGrant[]): readonly Row[] {
  if (grants.length === 0) {
    throw new TypeError('`tokens` is empty: leave it out for a service without tokens')
  }
  const first = new Map<string, number>()
  return grants.map((grant, index) => {
    const { token, agentIds } = grant
    const fault = faultOf(grant)
    if (fault !== undefined) throw new TypeError(`\`tokens[${index}]\`: ${fault}`)
    const earlier = first.get(token)
    if (earlier !== undefined) {
      throw new TypeError(`\`tokens[${index}]\` has the token of \`tokens[${earlier}]\``)
    }
    first.set(token, index)
    const known = new Set(agentIds)
    return { digest: digest(token), access: (id) => agentIds === '*' || known.has(id) }
  })
}

function digest(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}
