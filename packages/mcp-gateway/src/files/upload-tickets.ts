import { z } from 'zod'
import { systemClock, type Clock } from '../internal/clock.ts'
import type { Values } from '../store/gateway-store.ts'
import { isRandomId, randomId } from '../internal/random-hex.ts'
import type { ArtifactCaller } from './artifact-caller.ts'
import { encodedName } from './artifact-uri.ts'
import { artifactNameFrom } from './artifact-name.ts'

interface Ticket {
  readonly principal: string
  readonly isAnonymous: boolean
  readonly name: string
  readonly scope?: string | undefined
  readonly address?: string | undefined
  /** Milliseconds since 1970. */
  readonly endsAt: number
}

const Ticket: z.ZodType<Ticket> = z.object({
  principal: z.string(),
  isAnonymous: z.boolean(),
  name: z.string(),
  scope: z.string().optional(),
  address: z.string().optional(),
  endsAt: z.number(),
})

/** A link that is being used. */
export interface TakenTicket {
  /** For whom it was given out. */
  readonly caller: ArtifactCaller
  /** Nothing came of it: it can be used again until it ends. */
  giveBack(): Promise<void>
}

export interface UploadTicketsOptions {
  readonly values: Values
  /** As clients see it, with the path: `https://host/artifacts`; `undefined`: not known, and then there are no links. */
  readonly baseUrl: () => string | undefined
  /** How long a link works. @default 900_000 */
  readonly ttlMs?: number | undefined
  /** @default the system's */
  readonly clock?: Clock | undefined
}

/**
 * Links by which whoever has them uploads one file for somebody else, once: addresses are kept in logs. A link names neither of them: all it
 * holds is 128 random bits, which every process finds in the store until they end.
 */
export class UploadTickets {
  readonly #options: UploadTicketsOptions

  constructor(options: UploadTicketsOptions) {
    this.#options = options
  }

  /** Where a `PUT` becomes a file of the caller's. */
  async uploadUrl(caller: ArtifactCaller, fileName: string): Promise<string | undefined> {
    const { values, ttlMs = 900_000, clock = systemClock } = this.#options
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
      endsAt: clock.now() + ttlMs,
    }
    await values.put(ticketKey(id), ticket satisfies Ticket, { ttlMs })
    return `${base}/${encodedName(name)}?ticket=${id}`
  }

  /** `undefined`: not given out for this name, used before, or ended. */
  async take(id: string, name: string): Promise<TakenTicket | undefined> {
    if (!isRandomId(id)) return undefined
    const { values } = this.#options
    const key = ticketKey(id)
    // Who tries another name does not use it up.
    if (ticketFrom((await values.get(key))?.value)?.name !== name) return undefined
    const ticket = ticketFrom(await values.take(key))
    if (!ticket) return undefined
    const { principal, isAnonymous, scope, address } = ticket
    return {
      caller: { principal: { id: principal, isAnonymous, scopes: [], claims: {} }, scope, address },
      giveBack: () => this.#giveBack(key, ticket),
    }
  }

  async #giveBack(key: string, ticket: Ticket): Promise<void> {
    const { values, clock = systemClock } = this.#options
    const ttlMs = ticket.endsAt - clock.now()
    if (ttlMs > 0) await values.put(key, ticket, { ttlMs })
  }
}

function ticketFrom(value: unknown): Ticket | undefined {
  return Ticket.safeParse(value).data
}

function ticketKey(id: string): string {
  return `artifacts/ticket/${id}`
}
