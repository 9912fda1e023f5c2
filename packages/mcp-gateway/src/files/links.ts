import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Artifact } from './artifacts.ts'
import type { ArtifactCaller, ArtifactScopes } from './namespaces.ts'
import { artifactNameFrom, encodedName } from './uri.ts'
import type { ArtifactAddress } from './uri.ts'
import type { Clock } from '../internal/clock.ts'
import { randomHex } from '../internal/random-hex.ts'
import type { Records } from '../store/gateway-store.ts'

/** The clocks of processes that share a store may differ by this time. */
const CLOCK_SKEW_MS = 60_000

export interface ArtifactLinksOptions {
  readonly scopes: ArtifactScopes
  readonly records: Records
  /** Returns the URL of the path as clients see it: `https://host/artifacts`. `undefined`: not known, so there are no links. */
  readonly baseUrl: () => string | undefined
  /** Key that signs links. The same in every process. */
  readonly key: Uint8Array | string
  /** Time for which a link works. Milliseconds. */
  readonly ttlMs: number
  readonly clock: Clock
}

interface Link {
  readonly url: string
  /** Milliseconds since 1970. */
  readonly expiresAt: number
}

/** What a link is for, and the parameter of its query that names the version or the upload. */
const PARAMETER = { download: 'version', upload: 'once' } as const
type Use = keyof typeof PARAMETER

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

  /** Returns a link that expires with the artifact at the latest. `undefined`: the address of the gateway is not known. */
  downloadUrl({ scope, name, version, expiresAt }: Artifact): string | undefined {
    return this.#link({ scope, name }, ['download', `${version}`], expiresAt)?.url
  }

  /** Returns whether a query is that of a download link to this version, and the link has not expired. */
  isDownload(address: ArtifactAddress, query: URLSearchParams): boolean {
    return this.#isValid(address, 'download', query)
  }

  /** Returns a link where a `PUT` stores a file of the caller. A link works once, because addresses are kept in logs. */
  async uploadLink(caller: ArtifactCaller, fileName: string): Promise<Link | undefined> {
    const { scope } = await this.#options.scopes.forWriting(caller, undefined)
    return this.#link({ scope, name: artifactNameFrom(fileName) }, ['upload', randomHex(8)])
  }

  /** Uses an upload link. `undefined`: the link is not valid, was used before, or has expired. */
  async useUpload(address: ArtifactAddress, query: URLSearchParams): Promise<UsedLink | undefined> {
    const { scopes, records, clock } = this.#options
    if (!this.#isValid(address, 'upload', query)) return undefined
    const caller = await scopes.ownerOf(address.scope)
    if (caller === undefined) return undefined
    const key = `artifacts/used-link/${query.get('once')}`
    const ttlMs = Number(query.get('exp')) * 1000 - clock.now() + CLOCK_SKEW_MS
    const version = await records.put(key, 1, { ttlMs, ifVersion: null })
    if (version === undefined) return undefined
    return { caller, release: async () => void (await records.delete(key, version)) }
  }

  #link(
    { scope, name }: ArtifactAddress,
    [use, value]: readonly [use: Use, value: string],
    latestMs = Infinity,
  ): Link | undefined {
    const { baseUrl, clock, ttlMs } = this.#options
    const base = baseUrl()
    if (base === undefined) return undefined
    const exp = Math.floor(Math.min(clock.now() + ttlMs, latestMs) / 1000)
    const sig = this.#sign({ scope, name }, [use, value, exp])
    const query = `${PARAMETER[use]}=${value}&exp=${exp}&sig=${sig}`
    return { url: `${base}/${scope}/${encodedName(name)}?${query}`, expiresAt: exp * 1000 }
  }

  #isValid(address: ArtifactAddress, use: Use, query: URLSearchParams): boolean {
    const [value, exp, sig] = [PARAMETER[use], 'exp', 'sig'].map((name) => query.get(name) ?? '')
    if (!/^\d{1,12}$/.test(exp ?? '')) return false
    if (Number(exp) * 1000 <= this.#options.clock.now()) return false
    const expected = Buffer.from(this.#sign(address, [use, value, exp]))
    const given = Buffer.from(sig ?? '')
    return given.length === expected.length && timingSafeEqual(given, expected)
  }

  #sign({ scope, name }: ArtifactAddress, use: readonly unknown[]): string {
    const text = ['mcp-gateway.link', scope, encodedName(name), ...use].join('\0')
    return createHmac('sha256', this.#options.key).update(text).digest('base64url')
  }
}
