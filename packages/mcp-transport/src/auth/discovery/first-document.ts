import { TransportError } from '../../transport-error.ts'
import { AuthError } from '../auth-error.ts'
import type { OAuthFetch } from '../oauth-fetch.ts'

export interface FirstDocumentOptions<Document> {
  readonly urls: readonly URL[]
  /** The document, if it is one. */
  readonly read: (value: unknown) => Document | undefined
  readonly fetch: OAuthFetch
}

export interface Found<Document> {
  readonly url: URL
  readonly document: Document
}

/**
 * The first document of several places. Undefined if none of them has one: 4xx, a redirect elsewhere, or
 * a 2xx that is something else, because many servers answer unknown paths with a page.
 *
 * @throws AuthError `DISCOVERY_FAILED` if there is none, and one of the places could not say. "Could not
 * look" is not "there is none": that would send people to the wrong authorization server.
 */
export async function firstDocument<Document>(
  options: FirstDocumentOptions<Document>,
): Promise<Found<Document> | undefined> {
  const { urls, read, fetch } = options
  let trouble: { url: URL; cause: unknown } | undefined
  for (const url of urls) {
    try {
      const document = read(await jsonFrom(url, fetch))
      if (document !== undefined) return { url, document }
    } catch (cause) {
      if (TransportError.is(cause) && cause.code === 'CLOSED') throw cause
      trouble ??= { url, cause }
    }
  }
  if (trouble === undefined) return undefined
  const { url, cause } = trouble
  const message = `Metadata for authorization could not be read from ${url.origin}${url.pathname}`
  throw new AuthError('DISCOVERY_FAILED', message, { cause })
}

async function jsonFrom(url: URL, fetch: OAuthFetch): Promise<unknown> {
  let response: Response
  try {
    response = await fetch(url, { headers: { accept: 'application/json' } })
  } catch (error) {
    if (TransportError.is(error) && error.code === 'UNEXPECTED_RESPONSE') return undefined
    throw error
  }
  if (response.status >= 500) throw new Error(`HTTP ${response.status}`)
  if (!response.ok) return undefined
  try {
    return await response.json()
  } catch {
    return undefined // not JSON
  }
}
