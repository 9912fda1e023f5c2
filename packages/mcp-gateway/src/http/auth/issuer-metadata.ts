import { isRecord } from '@x/internal'
import { readBounded } from '../../internal/guarded-fetch.ts'
import { secureUrlFrom } from './secure-url.ts'

export interface IssuerMetadataOptions {
  readonly issuer: string
  readonly fetch: typeof globalThis.fetch
  /** Of one request. */
  readonly timeoutMs: number
  /** Milliseconds since 1970. */
  readonly now: () => number
}

/** What an issuer says of itself; it names this issuer. */
export type IssuerDocument = Readonly<Record<string, unknown>>

const MAX_DOCUMENT_BYTES = 262_144

/** How long it is told again as it was read. */
const KEPT_MS = 300_000

/** How long nobody asks again for what could not be had: any token that names the issuer would ask. */
const PAUSE_MS = 5000

/**
 * What an issuer says of itself: RFC 8414 with the well-known part before the path, then OpenID Connect discovery with
 * it behind. A document that names another issuer is not its own.
 */
export class IssuerMetadata {
  readonly #options: IssuerMetadataOptions
  #reading: Promise<IssuerDocument> | undefined
  #askAgainAt = Infinity

  constructor(options: IssuerMetadataOptions) {
    this.#options = options
  }

  /** One lookup for all who wait. @throws Error if there is none now, or was none a moment ago */
  read(): Promise<IssuerDocument> {
    const { now } = this.#options
    if (this.#reading && now() < this.#askAgainAt) return this.#reading
    const reading = readDocument(this.#options)
    this.#reading = reading
    this.#askAgainAt = Infinity
    reading.then(
      () => (this.#askAgainAt = now() + KEPT_MS),
      () => (this.#askAgainAt = now() + PAUSE_MS),
    )
    return reading
  }
}

/** Where its keys are. @throws Error if it does not say, or they are not at an address that may be trusted */
export function jwksUrlFrom({ jwks_uri: keys }: IssuerDocument): URL {
  if (typeof keys !== 'string') throw new Error('The metadata names no keys')
  return secureUrlFrom(keys, 'jwks_uri')
}

async function readDocument(options: IssuerMetadataOptions): Promise<IssuerDocument> {
  const causes: unknown[] = []
  for (const url of metadataUrlsOf(options.issuer)) {
    try {
      return await documentAt(url, options)
    } catch (error) {
      causes.push(error)
    }
  }
  throw new AggregateError(causes, 'The issuer gives no metadata')
}

/** Where the metadata of an issuer may be, in the order in which it is looked for. */
function metadataUrlsOf(issuer: string): readonly string[] {
  const { origin, pathname } = new URL(issuer)
  const path = pathname.replace(/\/$/, '')
  return [
    `${origin}/.well-known/oauth-authorization-server${path}`,
    `${origin}${path}/.well-known/openid-configuration`,
  ]
}

async function documentAt(
  url: string,
  { issuer, fetch, timeoutMs }: IssuerMetadataOptions,
): Promise<IssuerDocument> {
  const response = await fetch(url, {
    headers: { accept: 'application/json' },
    redirect: 'error',
    signal: AbortSignal.timeout(timeoutMs),
  })
  if (!response.ok) {
    await response.body?.cancel()
    throw new Error(`The metadata was answered with ${response.status}`)
  }
  const body = await readBounded(response, MAX_DOCUMENT_BYTES)
  const document: unknown = JSON.parse(body.toString('utf8'))
  if (!isRecord(document) || document['issuer'] !== issuer) {
    throw new Error('The metadata is of another issuer')
  }
  return document
}
