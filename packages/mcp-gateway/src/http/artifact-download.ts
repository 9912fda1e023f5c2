import { GatewayError } from '../errors.ts'
import type { ArtifactCaller } from '../files/namespaces.ts'
import type { ArtifactLinks } from '../files/links.ts'
import { artifactTitleFrom, artifactUriOf, decodedName, fileNameFrom } from '../files/uri.ts'
import type { ArtifactAddress } from '../files/uri.ts'
import type { Artifact, Artifacts, OpenArtifact } from '../files/artifacts.ts'
import { byteRangeFrom } from './byte-range.ts'
import { problemResponse, problemResponseFrom } from './problem-response.ts'
import { isScopeId } from '../files/namespaces.ts'

export interface ArtifactDownloadOptions {
  readonly artifacts: Artifacts
  readonly links: ArtifactLinks
  /** @default '/artifacts' */
  readonly path?: string | undefined
  /** Of the artifacts' URIs. @default 'artifact' */
  readonly uriScheme?: string | undefined
}

/**
 * Answers a request, or leaves it: `undefined` is not its path or method. `caller`: who was verified; none
 * where the request had no credential, and then only a link is good enough. `onFile` is told which file it is
 * about, and for whom, as soon as both are known.
 */
export type ArtifactHandler = (
  request: Request,
  caller: ArtifactCaller | undefined,
  onFile?: (artifact: Artifact, caller: ArtifactCaller | undefined) => void,
) => Promise<Response | undefined>

/** `GET {path}/{scope}/{name}?version=N`, for its owner or by a signed link. Streams, whole or a range. */
export function artifactDownload(options: ArtifactDownloadOptions): ArtifactHandler {
  const { artifacts, links, path = '/artifacts', uriScheme } = options
  return async function download(request, caller, onFile = () => undefined) {
    const url = new URL(request.url)
    if (request.method !== 'GET' && request.method !== 'HEAD') return undefined
    if (!url.pathname.startsWith(`${path}/`)) return undefined
    const address = addressFrom(url, path)
    if (!address) return problemResponse(404, 'NOT_FOUND', 'Artifact not found')
    try {
      const open = (range?: { first: number; last: number }): Promise<OpenArtifact> => {
        if (links.isDownload(address, url.searchParams)) return artifacts.openLinked(address, range)
        if (caller) return artifacts.open(caller, artifactUriOf(address, uriScheme), range)
        throw new GatewayError('NOT_FOUND', 'Artifact not found')
      }
      return await answer(request, open, (artifact) => onFile(artifact, caller))
    } catch (error) {
      return problemResponseFrom(error)
    }
  }
}

type Open = (range?: { first: number; last: number }) => Promise<OpenArtifact>

async function answer(
  request: Request,
  open: Open,
  onFile: (artifact: Artifact) => void,
): Promise<Response> {
  const whole = await open() // opens no file until it is read
  const { artifact } = whole
  onFile(artifact)
  const headers = headersOf(artifact)
  if (matches(request.headers.get('if-none-match'), artifact)) {
    return new Response(null, { status: 304, headers })
  }
  const asked = isRangeMeant(request, artifact) ? request.headers.get('range') : null
  const range = byteRangeFrom(asked, artifact.size)
  if (range === 'unsatisfiable') {
    headers.set('content-range', `bytes */${artifact.size}`)
    return new Response(null, { status: 416, headers })
  }
  const count = range ? range.last - range.first + 1 : artifact.size
  headers.set('content-length', String(count))
  if (range) headers.set('content-range', `bytes ${range.first}-${range.last}/${artifact.size}`)
  const status = range ? 206 : 200
  if (request.method === 'HEAD') return new Response(null, { status, headers })
  const { bytes } = range ? await open(range) : whole
  return new Response(ReadableStream.from(bytes), { status, headers })
}

/** What a browser opens here comes from an agent or a client: it runs nothing, and knows no origin. */
function headersOf(artifact: Artifact): Headers {
  return new Headers({
    'accept-ranges': 'bytes',
    'cache-control': 'private, no-cache',
    'content-disposition': dispositionOf(artifact.name),
    'content-security-policy': "sandbox; default-src 'none'",
    'content-type': artifact.mimeType,
    'cross-origin-resource-policy': 'same-origin',
    etag: etagOf(artifact),
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
  })
}

/** RFC 6266, with a name for clients that know only ASCII. */
function dispositionOf(name: string): string {
  const plain = name.replaceAll(/[^\w .-]/g, '_')
  const encoded = encodeURIComponent(fileNameFrom(artifactTitleFrom(name))).replaceAll(
    /['()*]/g,
    (mark) => {
      return `%${mark.charCodeAt(0).toString(16).toUpperCase()}`
    },
  )
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`
}

function etagOf({ sha256 }: Artifact): string {
  return `"${sha256}"`
}

function matches(header: string | null, artifact: Artifact): boolean {
  const tags = header?.split(',').map((tag) => tag.trim().replace(/^W\//, '')) ?? []
  return tags.includes('*') || tags.includes(etagOf(artifact))
}

/** A range of what the client has a part of already, if it still is the same. */
function isRangeMeant(request: Request, artifact: Artifact): boolean {
  const ifRange = request.headers.get('if-range')
  return ifRange === null || ifRange === etagOf(artifact)
}

/** Returns the artifact that a URL `{path}/{scope}/{name}?version=N` names. */
export function addressFrom(url: URL, path: string): ArtifactAddress | undefined {
  const [scope = '', segment = '', ...rest] = url.pathname.slice(path.length + 1).split('/')
  const name = decodedName(segment)
  if (name === undefined || !isScopeId(scope) || rest.length > 0) return undefined
  const version = url.searchParams.get('version')
  if (version === null) return { scope, name }
  return /^[1-9]\d{0,8}$/.test(version) ? { scope, name, version: Number(version) } : undefined
}
