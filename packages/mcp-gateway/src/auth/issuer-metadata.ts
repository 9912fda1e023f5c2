import { readBounded } from '../http/bounded-response.ts'
import { isRecord } from '../is-record.ts'
import { secureUrlFrom } from './secure-url.ts'

export interface IssuerMetadataOptions {
  readonly issuer: string
  readonly fetch: typeof globalThis.fetch
  readonly timeoutMs: number
}

const MAX_DOCUMENT_BYTES = 262_144

/**
 * Where the keys of an issuer are, as its metadata says: RFC 8414 with the well-known part before the path, then
 * OpenID Connect discovery with it behind. A document that names another issuer is not its own.
 *
 * @throws Error if there is none now
 */
export async function jwksUrlOf(options: IssuerMetadataOptions): Promise<URL> {
  const causes: unknown[] = []
  for (const url of metadataUrlsOf(options.issuer)) {
    try {
      return await jwksUrlAt(url, options)
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

async function jwksUrlAt(
  url: string,
  { issuer, fetch, timeoutMs }: IssuerMetadataOptions,
): Promise<URL> {
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
  const { jwks_uri: keys } = document
  if (typeof keys !== 'string') throw new Error('The metadata names no keys')
  return secureUrlFrom(keys, 'jwks_uri')
}
