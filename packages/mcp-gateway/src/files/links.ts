import { createHmac, timingSafeEqual } from 'node:crypto'
import { z } from 'zod'
import type { Artifact } from './artifacts.ts'
import type { ArtifactCaller } from './namespaces.ts'
import { artifactNameFrom, encodedName } from './uri.ts'
import type { ArtifactAddress } from './uri.ts'
import { systemClock } from '../internal/clock.ts'
import type { Clock } from '../internal/clock.ts'
import { isRandomId, randomId } from '../internal/random-hex.ts'
import type { Records } from '../store/gateway-store.ts'

export interface ArtifactLinksOptions {
  /** Returns the URL of the path as clients see it: `https://host/artifacts`. `undefined`: not known, so there are no links. */
  readonly baseUrl: () => string | undefined
  /** Key that signs links. The same in every process. */
  readonly key: Uint8Array | string
  /** Time for which a link works. Milliseconds. @default 900_000 */
  readonly ttlMs?: number | undefined
  /** @default the clock of the system */
  readonly clock?: Clock | undefined
}

/** Signed links: everyone who has one can download one version of one file until the link expires. */
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

  /** Returns a link that expires with the artifact at the latest. */
  downloadUrl({ scope, name, version, expiresAt }: Artifact): string | undefined {
    const base = this.#baseUrl()
    if (base === undefined) return undefined
    const ends = Math.min(this.#clock.now() + this.#ttlMs, expiresAt)
    const exp = String(Math.floor(ends / 1000))
    const sig = this.#sign({ scope, name, version }, exp).toString('base64url')
    return `${base}/${scope}/${encodedName(name)}?version=${version}&exp=${exp}&sig=${sig}`
  }

  /** Returns whether the signature is valid for this version and has not expired. */
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

/** An upload link in use. */
export interface TakenTicket {
  /** Caller that got the link. */
  readonly caller: ArtifactCaller
  /** Makes the link usable again until it expires, after an upload that failed. */
  giveBack(): Promise<void>
}

export interface UploadTicketsOptions {
  readonly records: Records
  /** Returns the URL of the path as clients see it: `https://host/artifacts`. `undefined`: not known, so there are no links. */
  readonly baseUrl: () => string | undefined
  /** Time for which a link works. Milliseconds. @default 900_000 */
  readonly ttlMs?: number | undefined
  /** @default the clock of the system */
  readonly clock?: Clock | undefined
}

/**
 * Links to upload one file for a caller without a credential. A link works once, because addresses are kept in logs. It
 * holds only 128 random bits, which every process finds in the store until the link expires.
 */
export class UploadTickets {
  readonly #options: UploadTicketsOptions

  constructor(options: UploadTicketsOptions) {
    this.#options = options
  }

  /** Returns a URL where a `PUT` stores a file of the caller. */
  async uploadUrl(caller: ArtifactCaller, fileName: string): Promise<string | undefined> {
    const { records, ttlMs = 900_000, clock = systemClock } = this.#options
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
    await records.put(ticketKey(id), ticket satisfies Ticket, { ttlMs })
    return `${base}/${encodedName(name)}?ticket=${id}`
  }

  /** Uses a link. `undefined`: it is for another name, was used before, or has expired. */
  async take(id: string, name: string): Promise<TakenTicket | undefined> {
    if (!isRandomId(id)) return undefined
    const { records } = this.#options
    const key = ticketKey(id)
    // A request with another name does not use the link.
    if (ticketFrom((await records.get(key))?.value)?.name !== name) return undefined
    const ticket = ticketFrom(await records.take(key))
    if (!ticket) return undefined
    const { principal, isAnonymous, scope, address } = ticket
    return {
      caller: { principal: { id: principal, isAnonymous, scopes: [], claims: {} }, scope, address },
      giveBack: () => this.#giveBack(key, ticket),
    }
  }

  async #giveBack(key: string, ticket: Ticket): Promise<void> {
    const { records, clock = systemClock } = this.#options
    const ttlMs = ticket.endsAt - clock.now()
    if (ttlMs > 0) await records.put(key, ticket, { ttlMs })
  }
}

function ticketFrom(value: unknown): Ticket | undefined {
  return Ticket.safeParse(value).data
}

function ticketKey(id: string): string {
  return `artifacts/ticket/${id}`
}
