import { GatewayError } from '../errors.ts'

/**
 * The whole body of an answer, as bytes.
 *
 * @throws GatewayError `LIMIT` for more than `maxBytes`, of which no more is read; whatever breaks the stream
 */
export async function readBounded(response: Response, maxBytes: number): Promise<Buffer> {
  if (response.body === null) return Buffer.alloc(0)
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body) {
    size += chunk.byteLength
    // Leaving the loop cancels the stream.
    if (size > maxBytes)
      throw new GatewayError('LIMIT', `An answer is longer than ${maxBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks, size)
}
