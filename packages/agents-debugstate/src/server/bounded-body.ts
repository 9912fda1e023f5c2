/**
 * The body of a request; `'too-large'` as soon as that is certain: a body that says so itself is not
 * read at all; `'incomplete'` if it ended before its end.
 */
export async function boundedBody(
  request: Request,
  limit: number,
): Promise<Uint8Array | 'too-large' | 'incomplete'> {
  try {
    return await bodyOf(request, limit)
  } catch {
    return 'incomplete' // the client went away, or was too slow
  }
}

async function bodyOf(request: Request, limit: number): Promise<Uint8Array | 'too-large'> {
  const length = request.headers.get('content-length')
  // An HTTP server holds a body to its own length, so this one is bounded.
  if (length !== null) {
    return Number(length) <= limit ? new Uint8Array(await request.arrayBuffer()) : 'too-large'
  }
  if (request.body === null) return new Uint8Array()
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of request.body) {
    bytes += chunk.byteLength
    if (bytes > limit) return 'too-large'
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
