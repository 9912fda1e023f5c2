import type { IncomingMessage } from 'node:http'

/** More than any test sends; what is larger is a mistake. */
const MAX_BYTES = 64 * 1024 * 1024

/**
 * The whole body of a request.
 *
 * @throws when the client leaves in the middle of it, or sends more than 64 MiB
 */
export async function requestBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > MAX_BYTES) throw new RangeError(`Request body larger than ${MAX_BYTES} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** One value of a header that may come as a list. */
export function header(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name]
  return Array.isArray(value) ? value[0] : value
}
