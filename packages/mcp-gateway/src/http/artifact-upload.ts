import type { ArtifactHandler } from './artifact-download.ts'
import { decodedName } from '../files/uri.ts'
import type { Artifacts } from '../files/artifacts.ts'
import { problemResponse, problemResponseFrom } from './problem-response.ts'
import type { TakenTicket, UploadTickets } from '../files/links.ts'

export interface ArtifactUploadOptions {
  readonly artifacts: Artifacts
  readonly tickets: UploadTickets
  /** Of one file. @default what all files may have, which is the most */
  readonly maxBytes?: number | undefined
  /** @default '/artifacts' */
  readonly path?: string | undefined
}

/**
 * `PUT {path}/{name}`, with `?scope=` for an earlier scope of the caller's, or by a link for somebody else.
 * The body is the file, and is stored as it arrives. 201 with `{ uri, version, size, sha256 }`.
 */
export function artifactUpload(options: ArtifactUploadOptions): ArtifactHandler {
  const { artifacts, tickets, path = '/artifacts' } = options
  const maxBytes = Math.min(options.maxBytes ?? artifacts.maxBytes, artifacts.maxBytes)
  return async function upload(request, verified, onFile = () => undefined) {
    const url = new URL(request.url)
    if (request.method !== 'PUT' || !url.pathname.startsWith(`${path}/`)) return undefined
    const name = decodedName(url.pathname.slice(path.length + 1))
    if (name === undefined || url.pathname.slice(path.length + 1).includes('/')) {
      return problemResponse(400, 'BAD_NAME', 'A name is one segment of 1 to 255 bytes')
    }
    // Before a byte is read. Without the header, or with a wrong one, counting is left to the store.
    if (Number(request.headers.get('content-length') ?? 0) > maxBytes) {
      return problemResponse(413, 'LIMIT', `More than the ${maxBytes} bytes that are allowed`)
    }
    const body = new RequestBody(request.body)
    let ticket: TakenTicket | undefined
    try {
      const id = url.searchParams.get('ticket')
      ticket = id === null ? undefined : await tickets.take(id, name)
      const caller = id === null ? verified : ticket?.caller
      if (!caller) return problemResponse(404, 'NOT_FOUND', 'This link does not work, or no more')
      const scope = url.searchParams.get('scope') ?? undefined
      const mimeType = declaredType(request)
      const file = { name, mimeType, bytes: body, scope, maxBytes }
      const written = await artifacts.write(caller, file)
      onFile(written, caller)
      const { versionUri, version, size, sha256 } = written
      const headers = { 'cache-control': 'no-store' }
      return Response.json({ uri: versionUri, version, size, sha256 }, { status: 201, headers })
    } catch (error) {
      await ticket?.giveBack().catch(() => undefined) // the first reason says more
      // Nobody is there to read it; but every request has an answer.
      if (body.hasFailed) return problemResponse(400, 'BROKEN_BODY', 'The body did not arrive')
      return problemResponseFrom(error)
    }
  }
}

/** Of the file. Command lines say that a body is a form wherever nobody says what it is. */
function declaredType({ headers }: Request): string | undefined {
  const type = headers.get('content-type') ?? undefined
  return type === 'application/x-www-form-urlencoded' ? undefined : type
}

/** Bytes of a request, and whether it was their sender that failed. */
class RequestBody implements AsyncIterable<Uint8Array> {
  readonly #body: Request['body']
  hasFailed = false

  constructor(body: Request['body']) {
    this.#body = body
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    const reader = this.#body?.getReader()
    if (!reader) return
    try {
      for (;;) {
        const next = await reader.read().catch((error: unknown) => {
          this.hasFailed = true
          throw error
        })
        if (next.done) return
        yield next.value
      }
    } finally {
      await reader.cancel().catch(() => {}) // nobody reads the rest
    }
  }
}
