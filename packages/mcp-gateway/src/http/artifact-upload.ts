import { addressFrom, type ArtifactHandler } from './artifact-download.ts'
import { decodedName } from '../files/uri.ts'
import type { Artifacts } from '../files/artifacts.ts'
import { problemResponse, problemResponseFrom } from './problem-response.ts'
import type { ArtifactLinks, UsedLink } from '../files/links.ts'

export interface ArtifactUploadOptions {
  readonly artifacts: Artifacts
  readonly links: ArtifactLinks
  /** Limit for one upload. Bytes. @default the limit of all files, which it cannot exceed */
  readonly maxBytes?: number | undefined
  /** @default '/artifacts' */
  readonly path?: string | undefined
}

/**
 * Answers `PUT {path}/{name}`, with `?scope=` for an existing scope of the caller, and `PUT {path}/{scope}/{name}` with a
 * signed link. The body is the file, and is stored as it arrives. 201 with `{ uri, version, size, sha256 }`.
 */
export function artifactUpload(options: ArtifactUploadOptions): ArtifactHandler {
  const { artifacts, links, path = '/artifacts' } = options
  const maxBytes = Math.min(options.maxBytes ?? artifacts.maxBytes, artifacts.maxBytes)
  return async function upload(request, verified, onFile = () => undefined) {
    const url = new URL(request.url)
    if (request.method !== 'PUT' || !url.pathname.startsWith(`${path}/`)) return undefined
    const linked = url.searchParams.has('sig') ? addressFrom(url, path) : undefined
    const name = linked?.name ?? decodedName(url.pathname.slice(path.length + 1))
    if (name === undefined || (!linked && url.pathname.slice(path.length + 1).includes('/'))) {
      return problemResponse(400, 'BAD_NAME', 'A name is one segment of 1 to 255 bytes')
    }
    // Before a byte is read. Without the header, or with a wrong one, counting is left to the store.
    if (Number(request.headers.get('content-length') ?? 0) > maxBytes) {
      return problemResponse(413, 'LIMIT', `More than the ${maxBytes} bytes that are allowed`)
    }
    const body = new RequestBody(request.body)
    let link: UsedLink | undefined
    try {
      if (linked) link = await links.useUpload(linked, url.searchParams)
      const caller = linked ? link?.caller : verified
      if (!caller) return problemResponse(404, 'NOT_FOUND', LINK_REFUSED)
      const scope = linked?.scope ?? url.searchParams.get('scope') ?? undefined
      const mimeType = declaredType(request)
      const file = { name, mimeType, bytes: body, scope, maxBytes }
      const written = await artifacts.write(caller, file)
      onFile(written, caller)
      const { versionUri, version, size, sha256 } = written
      const headers = { 'cache-control': 'no-store' }
      return Response.json({ uri: versionUri, version, size, sha256 }, { status: 201, headers })
    } catch (error) {
      await link?.release().catch(() => undefined) // the first error says more
      if (body.hasFailed) return problemResponse(400, 'BROKEN_BODY', 'The body did not arrive')
      return problemResponseFrom(error)
    }
  }
}

const LINK_REFUSED = 'This upload link is not valid, was used before, or has expired'

/** Returns the type that the client declared. Some HTTP clients declare every body as a form by default. */
function declaredType({ headers }: Request): string | undefined {
  const type = headers.get('content-type') ?? undefined
  return type === 'application/x-www-form-urlencoded' ? undefined : type
}

/** Bytes of a request. */
class RequestBody implements AsyncIterable<Uint8Array> {
  readonly #body: Request['body']
  /** Whether the client stopped sending. */
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
      await reader.cancel().catch(() => {}) // the rest is not needed
    }
  }
}
