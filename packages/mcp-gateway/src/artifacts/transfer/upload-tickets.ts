import { z } from 'zod'
import type { Values } from '../../store/gateway-store.ts'
import { isRandomId, randomId } from '../../store/random-id.ts'
import type { ArtifactCaller } from '../artifact-caller.ts'
import { encodedName } from '../artifact-uri.ts'
import { artifactNameFrom } from '../artifact-name.ts'

interface Ticket {
  readonly principal: string
  readonly isAnonymous: boolean
  readonly name: string
  readonly scope?: string | undefined
  readonly address?: string | undefined
}

const Ticket: z.ZodType<Ticket> = z.object({
  principal: z.string(),
  isAnonymous: z.boolean(),
  name: z.string(),
  scope: z.string().optional(),
  address: z.string().optional(),
})

export interface UploadTicketsOptions {
  readonly values: Values
  /** As clients see it, with the path: `https://host/artifacts`; `undefined`: not known, and then there are no links. */
  readonly baseUrl: () => string | undefined
  /** How long a link works. @default 900_000 */
  readonly ttlMs?: number | undefined
}

/**
 * Links by which whoever has them uploads one file for somebody else. A link names neither of them: all it
 * holds is 128 random bits, which every process finds in the store until they end.
 */
export class UploadTickets {
  readonly #options: UploadTicketsOptions

  constructor(options: UploadTicketsOptions) {
    this.#options = options
  }

  /** Where a `PUT` becomes a file of the caller's. */
  async uploadUrl(caller: ArtifactCaller, fileName: string): Promise<string | undefined> {
    const { values, ttlMs = 900_000 } = this.#options
    const base = this.#options.baseUrl()
    if (base === undefined) return undefined
    const id = randomId()
    const name = artifactNameFrom(fileName)
    const { principal, scope, address } = caller
    const ticket = {
      principal: principal.id,
      isAnonymous: principal.isAnonymous,
      name,
      scope,
      address,
    }
    await values.put(ticketKey(id), ticket satisfies Ticket, { ttlMs })
    return `${base}/${encodedName(name)}?ticket=${id}`
  }

  /** For whom a ticket was given out, if it is for this name and has not ended. */
  async callerOf(id: string, name: string): Promise<ArtifactCaller | undefined> {
    if (!isRandomId(id)) return undefined
    const found = await this.#options.values.get(ticketKey(id))
    const ticket = Ticket.safeParse(found?.value).data
    if (!ticket || ticket.name !== name) return undefined
    const { principal, isAnonymous, scope, address } = ticket
    return { principal: { id: principal, isAnonymous, scopes: [], claims: {} }, scope, address }
  }
}

function ticketKey(id: string): string {
  return `artifacts/ticket/${id}`
}
