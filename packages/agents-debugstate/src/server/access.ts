import { hash, timingSafeEqual } from 'node:crypto'

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
  readonly #rows: readonly { readonly digest: Buffer; readonly access: Access }[]

  /** @throws TypeError for a list that could let nobody in, or anybody */
  constructor(grants: readonly DebugStateTokenGrant[]) {
    if (grants.length === 0) {
      throw new TypeError('`tokens` is empty: leave it out for a service without tokens')
    }
    this.#rows = grants.map(({ token, agentIds }, index) => {
      if (!/^[\x21-\x7E]{16,4096}$/.test(token)) {
        throw new TypeError(
          `\`tokens[${index}].token\` must be 16 to 4096 visible ASCII characters`,
        )
      }
      const known = new Set(agentIds)
      return { digest: digest(token), access: (id) => agentIds === '*' || known.has(id) }
    })
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

function digest(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}
