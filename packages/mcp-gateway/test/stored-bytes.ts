import type { Blobs, WrittenBlob } from '../src/store/gateway-store.ts'

export async function* bytesOf(
  ...chunks: readonly (string | Uint8Array)[]
): AsyncGenerator<Uint8Array> {
  for (const chunk of chunks) yield typeof chunk === 'string' ? Buffer.from(chunk) : chunk
}

/** Stores bytes for an hour. */
export function writeNew(
  blobs: Blobs,
  bytes: AsyncIterable<Uint8Array>,
  limit: number,
): Promise<WrittenBlob> {
  return blobs.write(bytes, { limit, ttlMs: 3_600_000 })
}
