import { createHmac, timingSafeEqual } from 'node:crypto'
import { systemClock } from '../internal/clock.ts'
import type { Clock } from '../internal/clock.ts'
import type { Artifact } from './artifact.ts'
import type { ArtifactAddress } from './artifact-uri.ts'
import { encodedName } from './artifact-uri.ts'

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
