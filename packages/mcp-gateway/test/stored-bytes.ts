import { randomId } from '../src/internal/random-hex.ts'
import type { Blobs, WrittenBlob } from '../src/store/gateway-store.ts'

export async function* bytesOf(
  ...chunks: readonly (string | Uint8Array)[]
): AsyncGenerator<Uint8Array> {
  for (const chunk of chunks) yield typeof chunk === 'string' ? Buffer.from(chunk) : chunk
}

/** Stores bytes under a new id. */
export async function writeNew(
  blobs: Blobs,
  bytes: AsyncIterable<Uint8Array>,
  limit: number,
): Promise<WrittenBlob & { readonly id: string }> {
  const id = randomId()
  return { id, ...(await blobs.write(id, bytes, limit)) }
}
