import type { Dispatcher } from '@x/mcp-transport'
import { McpClientError } from '../mcp-client-error.ts'
import type { McpClientErrorCode } from '../mcp-client-error.ts'
import { lookupError } from './lookup-error.ts'

export interface DirectoryRequest {
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly dispatcher: Dispatcher
  readonly signal: AbortSignal
  /** Whose lookup it is, for errors. */
  readonly server: string
}

/** Of an answer with another status than 200 nothing but the status counts. */
export interface DirectoryAnswer {
  readonly status: number
  readonly body?: unknown
}

const LIMIT_BYTES = 1024 * 1024

/**
 * Asks a directory one question. Redirects are not followed: the token is for this host only.
 *
 * @throws McpClientError `UNREACHABLE`, `LIMIT` for more than 1 MiB, `UNEXPECTED_RESPONSE` for what is no
 * JSON; or the reason of the signal
 */
export async function askDirectory(request: DirectoryRequest): Promise<DirectoryAnswer> {
  const { url, headers, dispatcher, signal } = request
  try {
    const { statusCode: status, body } = await dispatcher.request({
      origin: url.origin,
      path: url.pathname + url.search,
      method: 'GET',
      headers: { accept: 'application/json', ...headers },
      signal,
    })
    if (status === 200) return { status, body: jsonFrom(await textOf(body, request), request) }
    await body.dump({ limit: LIMIT_BYTES, signal }) // so that the connection can be used again
    return { status }
  } catch (error) {
    if (signal.aborted) throw signal.reason
    if (McpClientError.is(error)) throw error
    throw directoryError('UNREACHABLE', 'could not be asked', { ...request, cause: error })
  }
}

/** An error about the directory's part in a lookup. Names it without query. */
export function directoryError(
  code: McpClientErrorCode,
  what: string,
  { url, server, cause }: Pick<DirectoryRequest, 'url' | 'server'> & { readonly cause?: unknown },
): McpClientError {
  const message = `The directory at ${url.origin}${url.pathname} ${what}`
  return lookupError(code, message, { server, cause })
}

async function textOf(body: AsyncIterable<Buffer>, request: DirectoryRequest): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body) {
    bytes += chunk.length
    if (bytes > LIMIT_BYTES) {
      throw directoryError('LIMIT', `sent more than ${LIMIT_BYTES} bytes`, request)
    }
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function jsonFrom(text: string, request: DirectoryRequest): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw directoryError('UNEXPECTED_RESPONSE', 'sent no JSON', { ...request, cause: error })
  }
}
