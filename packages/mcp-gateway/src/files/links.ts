import { createHmac, timingSafeEqual } from 'node:crypto'
import { z } from 'zod'
import type { Artifact } from './artifacts.ts'
import type { ArtifactCaller } from './namespaces.ts'
import { artifactNameFrom, encodedName } from './uri.ts'
import type { ArtifactAddress } from './uri.ts'
import { systemClock } from '../internal/clock.ts'
import type { Clock } from '../internal/clock.ts'
import { isRandomId, randomId } from '../internal/random-hex.ts'
import type { Values } from '../store/gateway-store.ts'

export interface ArtifactLinksOptions {
  /** As clients see it, with the path: `https://host/artifacts`; `undefined`: not known, and then there are no links. */
  readonly baseUrl: () => string | undefined
  /** The same in every process. */
  readonly key: Uint8Array | string
  /** How long a link works. @default 900_000 */
  readonly ttlMs?: number | undefined
  /** @default the system's */
  readonly clock?: Clock | undefined
}

/** Links that let whoever has them download one version of one file, for a while. */
export class ArtifactLinks {
  readonly #baseUrl: () => string | undefined
  readonly #key: Uint8Array | string
  readonly #ttlMs: number
  readonly #clock: Clock

  constructor(options: ArtifactLinksOptions) {
    const { baseUrl, key, ttlMs = 900_000, clock = systemClock } = options
    this.#baseUrl = baseUrl
    this.#key = key
    this.#ttlMs = ttlMs
    this.#clock = clock
  }

  /** Ends with the artifact at the latest. */
  downloadUrl({ scope, name, version, expiresAt }: Artifact): string | undefined {
    const base = this.#baseUrl()
    if (base === undefined) return undefined
    const ends = Math.min(this.#clock.now() + this.#ttlMs, expiresAt)
    const exp = String(Math.floor(ends / 1000))
    const sig = this.#sign({ scope, name, version }, exp).toString('base64url')
    return `${base}/${scope}/${encodedName(name)}?version=${version}&exp=${exp}&sig=${sig}`
  }

  /** Whether a link for just this was given out, and has not ended. */
  isValid(address: ArtifactAddress, { exp, sig }: LinkSignature): boolean {
    if (!/^\d{1,12}$/.test(exp) || Number(exp) * 1000 <= this.#clock.now()) return false
    const expected = this.#sign(address, exp)
    const given = Buffer.from(sig, 'base64url')
    return given.length === expected.length && timingSafeEqual(given, expected)
  }

  #sign({ scope, name, version }: ArtifactAddress, exp: string): Buffer {
    const parts = ['mcp-gateway.download', scope, encodedName(name), version ?? '', exp]
    return createHmac('sha256', this.#key).update(parts.join('\0')).digest()
  }
}

export interface LinkSignature {
  /** Seconds since 1970. */
  readonly exp: string
  readonly sig: string
}

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
