import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Artifact } from './artifacts.ts'
import { encodedName, type ArtifactAddress } from './uri.ts'
import type { Clock } from '../internal/clock.ts'

/** Time for which a link works: everyone who has it can download the file. */
const LINK_TTL_MS = 900_000

export interface ArtifactLinksOptions {
  /** Returns the URL of the path as clients see it: `https://host/artifacts`. `undefined`: not known, so there are no links. */
  readonly baseUrl: () => string | undefined
  /** Key that signs links. The same in every process. */
  readonly key: Uint8Array | string
  readonly clock: Clock
}

/**
 * Signed links to one version of a file, for clients without a credential. Everyone who has a link can download the
 * version until the link expires.
 */
export class ArtifactLinks {
  readonly #options: ArtifactLinksOptions

  constructor(options: ArtifactLinksOptions) {
    this.#options = options
  }

  /** Returns a link that expires with the artifact at the latest. `undefined`: the address of the gateway is not known. */
  downloadUrl({ scope, name, version, expiresAt }: Artifact): string | undefined {
    const { baseUrl, clock } = this.#options
    const base = baseUrl()
    if (base === undefined) return undefined
    const exp = Math.floor(Math.min(clock.now() + LINK_TTL_MS, expiresAt) / 1000)
    const sig = this.#sign({ scope, name }, [version, exp])
    return `${base}/${scope}/${encodedName(name)}?version=${version}&exp=${exp}&sig=${sig}`
  }

  /** Returns whether a query is that of a link to this version, and the link has not expired. */
  isDownload(address: ArtifactAddress, query: URLSearchParams): boolean {
    const [version, exp = '', sig = ''] = ['version', 'exp', 'sig'].map(
      (name) => query.get(name) ?? '',
    )
    if (!/^\d{1,12}$/.test(exp)) return false
    if (Number(exp) * 1000 <= this.#options.clock.now()) return false
    const expected = Buffer.from(this.#sign(address, [version, exp]))
    const given = Buffer.from(sig)
    return given.length === expected.length && timingSafeEqual(given, expected)
  }

  #sign({ scope, name }: ArtifactAddress, parts: readonly unknown[]): string {
    const text = ['mcp-gateway.link', scope, encodedName(name), 'download', ...parts].join('\0')
    return createHmac('sha256', this.#options.key).update(text).digest('base64url')
  }
}
