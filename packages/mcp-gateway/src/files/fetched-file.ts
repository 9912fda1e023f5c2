import { GatewayError } from '../errors.ts'
import type { GuardedFetch } from '../internal/guarded-fetch.ts'

interface FetchedFile {
  readonly bytes: AsyncIterable<Uint8Array>
  readonly mimeType?: string | undefined
}

/**
 * A file that an agent gave by its URL, streamed.
 *
 * @throws GatewayError `UNAVAILABLE` for an answer other than 2xx; what the guard throws
 */
export async function fetchedFile(
  fetch: GuardedFetch,
  url: string,
  signal: AbortSignal,
): Promise<FetchedFile> {
  if (!URL.canParse(url)) throw new GatewayError('REFUSED', 'Refused to ask: what is no URL')
  const { ok, status, body, headers } = await fetch(url, { signal })
  if (!ok) {
    await body?.cancel()
    throw new GatewayError('UNAVAILABLE', `The address of the file answered with ${status}`)
  }
  return { bytes: body ?? nothing(), mimeType: headers.get('content-type') ?? undefined }
}

async function* nothing(): AsyncGenerator<Uint8Array> {}
