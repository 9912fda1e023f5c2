import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Artifact, Artifacts } from './artifacts.ts'
import type { ArtifactCaller } from './namespaces.ts'
import { artifactNameFrom, encodedName } from './uri.ts'
import type { ArtifactAddress } from './uri.ts'
import type { Clock } from '../internal/clock.ts'
import { randomHex } from '../internal/random-hex.ts'
import type { Records } from '../store/gateway-store.ts'

/** The clocks of processes that share a store may differ by this time. */
const CLOCK_SKEW_MS = 60_000

export interface ArtifactLinksOptions {
  readonly artifacts: Pick<Artifacts, 'scopes'>
  readonly records: Records
  /** Returns the URL of the path as clients see it: `https://host/artifacts`. `undefined`: not known, so there are no links. */
  readonly baseUrl: () => string | undefined
  /** Key that signs links. The same in every process. */
  readonly key: Uint8Array | string
  /** Time for which a link works. Milliseconds. */
  readonly ttlMs: number
  readonly clock: Clock
}

/** A link to upload one file. */
export interface UploadLink {
  readonly url: string
  /** Milliseconds since 1970. */
  readonly expiresAt: number
}

/** An upload link in use. */
export interface UsedLink {
  /** Owner of the scope of the link: the caller that got the link. */
  readonly caller: ArtifactCaller
  /** Makes the link usable again until it expires, after an upload that failed. */
  release(): Promise<void>
}

/**
 * Signed links to a scope and a name, for clients without a credential. Everyone who has a link can download one version
 * of the file, or upload one file, until the link expires.
 */
export class ArtifactLinks {
  readonly #options: ArtifactLinksOptions

  constructor(options: ArtifactLinksOptions) {
    this.#options = options
  }

  /** Returns a link that expires with the artifact at the latest. */
  downloadUrl({ scope, name, version, expiresAt }: Artifact): string | undefined {
    const { baseUrl, clock, ttlMs } = this.#options
    const base = baseUrl()
    if (base === undefined) return undefined
    const exp = toSeconds(Math.min(clock.now() + ttlMs, expiresAt))
    const sig = this.#sign({ scope, name }, ['download', version, exp])
    return `${base}/${scope}/${encodedName(name)}?version=${version}&exp=${exp}&sig=${sig}`
  }

  /** Returns whether a query is that of a download link to this version, and the link has not expired. */
  isDownload(address: ArtifactAddress, query: URLSearchParams): boolean {
    return this.#isValid(address, query, ['download', address.version ?? ''])
  }

  /** Returns a link where a `PUT` stores a file of the caller. A link works once, because addresses are kept in logs. */
  async uploadLink(caller: ArtifactCaller, fileName: string): Promise<UploadLink | undefined> {
    const { artifacts, baseUrl, clock, ttlMs } = this.#options
    const base = baseUrl()
    if (base === undefined) return undefined
    const { scope } = await artifacts.scopes.forWriting(caller, undefined)
    const name = artifactNameFrom(fileName)
    const exp = toSeconds(clock.now() + ttlMs)
    const once = randomHex(8)
    const sig = this.#sign({ scope, name }, ['upload', once, exp])
    const url = `${base}/${scope}/${encodedName(name)}?once=${once}&exp=${exp}&sig=${sig}`
    return { url, expiresAt: exp * 1000 }
  }

  /** Uses an upload link. `undefined`: the link is not valid, was used before, or has expired. */
  async useUpload(address: ArtifactAddress, query: URLSearchParams): Promise<UsedLink | undefined> {
    const { artifacts, records, clock } = this.#options
    const once = query.get('once') ?? ''
    if (!this.#isValid(address, query, ['upload', once])) return undefined
    const caller = await artifacts.scopes.ownerOf(address.scope)
    if (caller === undefined) return undefined
    const key = `artifacts/used-link/${once}`
    const ttlMs = Number(query.get('exp')) * 1000 - clock.now() + CLOCK_SKEW_MS
    const version = await records.put(key, 1, { ttlMs, ifVersion: null })
    if (version === undefined) return undefined
    return { caller, release: async () => void (await records.delete(key, version)) }
  }

  #isValid(address: ArtifactAddress, query: URLSearchParams, use: readonly unknown[]): boolean {
    const exp = query.get('exp') ?? ''
    if (!/^\d{1,12}$/.test(exp) || Number(exp) * 1000 <= this.#options.clock.now()) return false
    const expected = Buffer.from(this.#sign(address, [...use, exp]))
    const given = Buffer.from(query.get('sig') ?? '')
    return given.length === expected.length && timingSafeEqual(given, expected)
  }

  #sign({ scope, name }: ArtifactAddress, use: readonly unknown[]): string {
    const text = ['mcp-gateway.link', scope, encodedName(name), ...use].join('\0')
    return createHmac('sha256', this.#options.key).update(text).digest('base64url')
  }
}

function toSeconds(ms: number): number {
  return Math.floor(ms / 1000)
}
