import { withoutErrorLink } from '@x/internal'
import { GatewayError, type GatewayErrorCode } from '../errors.ts'
import type { Artifact, Artifacts } from '../files/artifacts.ts'
import type { ArtifactLinks } from '../files/links.ts'
import type { Caller } from '../internal/principal.ts'
import {
  artifactAddressFrom,
  decodedName,
  encodedName,
  fileNameFrom,
  type ArtifactAddress,
} from '../files/uri.ts'
import type { Clock } from '../internal/clock.ts'
import { abortable } from '../internal/timers.ts'
import type { GatewayObserver } from '../internal/observer.ts'
import { isPrincipal } from '../internal/principal.ts'
import { toReply, type HttpExchange, type Reply } from '../mcp/reply.ts'
import type { Admission } from './admission.ts'
import type { HttpRoute } from './router.ts'

export interface ArtifactRoutesOptions {
  readonly artifacts: Artifacts
  readonly links: ArtifactLinks
  /** Paths below which files are served: `` for the root. */
  readonly basePaths: readonly string[]
  /** Limit for one upload. Bytes. `undefined`: uploads are refused. */
  readonly maxUploadBytes: number | undefined
  readonly admission: Pick<Admission, 'admit' | 'countAddress'>
  /** Returns true when the gateway is about to stop: new transfers are refused. */
  readonly isDraining: () => boolean
  /** Receives uploads and downloads at their end. */
  readonly observer: Pick<Required<GatewayObserver>, 'fileTransferred'>
  readonly clock: Clock
}

/** An upload or a download. */
interface Transfer {
  readonly request: Request
  readonly url: URL
  /** `undefined` for a request whose only credential is a signed link. */
  readonly caller: Caller | undefined
  readonly address: string | undefined
  artifact: Artifact | undefined
}

/** Path of downloads and uploads. */
export const ARTIFACTS_PATH = '/artifacts'

const NOT_FOUND = 'Artifact not found'

/** Time that a whole upload may take, also where the server of an application has no limit. Milliseconds. */
const UPLOAD_MS = 300_000
const TOO_SLOW = `The file did not arrive within ${UPLOAD_MS / 1000} s. Send a smaller file, or use a faster connection`

/** Number of hexadecimal digits of a hash that identify a file in a log. */
const SHOWN_DIGITS = 12

/**
 * Downloads and uploads of files:
 *
 * - `GET /artifacts/{scope}/{name}?version=N` sends a file, to its owner or by a signed link.
 * - `PUT /artifacts/{name}` stores the body as it arrives. The answer is 201 with `{ uri, version, size, sha256 }`.
 */
export class ArtifactRoutes implements HttpRoute {
  readonly isOpen = false
  readonly #options: ArtifactRoutesOptions
  /** Beginnings of the paths of files. */
  readonly #beginnings: readonly string[]

  constructor(options: ArtifactRoutesOptions) {
    this.#options = options
    this.#beginnings = options.basePaths.map((base) => `${base}${ARTIFACTS_PATH}/`)
  }

  matches(path: string): boolean {
    return this.#beginnings.some((beginning) => path.startsWith(beginning))
  }

  async handle(exchange: HttpExchange): Promise<Reply> {
    const { admission, isDraining } = this.#options
    if (isDraining()) return toReply(problem(503, 'CLOSED', 'The gateway is stopping'))
    const { address, headers, method, url } = exchange
    const hasLink = method === 'GET' && new URL(url).searchParams.has('sig')
    const isLinked = hasLink && !headers.has('authorization')
    const who = await (isLinked ? admission.countAddress(exchange) : admission.admit(exchange))
    if (who !== undefined && !isPrincipal(who)) return who
    const caller = who && { principal: who, address }
    return toReply(await this.serve(exchange.request, caller, address))
  }

  /** @param caller `undefined` for a request whose only credential is a signed link */
  async serve(request: Request, caller: Caller | undefined, address?: string): Promise<Response> {
    const { method } = request
    const url = new URL(request.url)
    const transfer: Transfer = { request, url, caller, address, artifact: undefined }
    const startedAt = this.#options.clock.now()
    const { maxUploadBytes } = this.#options
    if (method === 'PUT' && caller && maxUploadBytes !== undefined) {
      const response = await this.#upload(transfer, caller, maxUploadBytes)
      const bytes = transfer.artifact?.size ?? 0
      this.#report(transfer, { startedAt, bytes, outcome: outcomeOf(response) })
      return response
    }
    if (method !== 'GET') {
      const refusal = problem(405, 'METHOD', 'A file is read with GET, and sent with PUT')
      refusal.headers.set('allow', 'GET, PUT')
      return refusal
    }
    const response = await this.#download(transfer, ({ bytes, isComplete }) => {
      this.#report(transfer, { startedAt, bytes, outcome: isComplete ? 'ok' : 'lost' })
    })
    if (!response.ok) {
      this.#report(transfer, { startedAt, bytes: 0, outcome: outcomeOf(response) })
    }
    return response
  }

  async #download(transfer: Transfer, onEnd: (end: BodyEnd) => void): Promise<Response> {
    const { artifacts, links } = this.#options
    const { caller, request, url } = transfer
    const address = this.#addressOf(url)
    if (!address) return problem(404, 'NOT_FOUND', NOT_FOUND)
    const isLinked = links.isDownload(address, url.searchParams)
    try {
      const artifact = isLinked
        ? await artifacts.findLinked(address)
        : caller && (await artifacts.find(caller, address))
      if (!artifact) return problem(404, 'NOT_FOUND', NOT_FOUND)
      transfer.artifact = artifact
      const headers = headersOf(artifact)
      headers.set('content-length', String(artifact.size))
      const body = countedBody(await artifact.open(), request.signal, onEnd)
      return new Response(body, { headers })
    } catch (error) {
      return toProblem(error)
    }
  }

  async #upload(transfer: Transfer, caller: Caller, maxBytes: number): Promise<Response> {
    const { request, url } = transfer
    const segment = this.#segmentsOf(url)
    const name = segment.includes('/') ? undefined : decodedName(segment)
    if (name === undefined) {
      return problem(400, 'BAD_NAME', 'A name is one segment of 1 to 255 bytes')
    }
    // Before a byte is read. Without the header, or with a wrong one, the store counts the bytes.
    if (Number(request.headers.get('content-length') ?? 0) > maxBytes) {
      return problem(413, 'LIMIT', `The file is larger than the limit of ${maxBytes} bytes`)
    }
    let isCutOff = false
    const late = new AbortController()
    const stopTimer = this.#options.clock.after(UPLOAD_MS, () => late.abort())
    const body = async function* (): AsyncGenerator<Uint8Array> {
      try {
        if (request.body) yield* abortable(request.body, late.signal)
      } catch (error) {
        isCutOff = true
        throw error
      }
    }
    try {
      const mimeType = declaredType(request)
      const file = { name, mimeType, bytes: body() }
      const written = await this.#options.artifacts.write(caller, file)
      transfer.artifact = written
      const { versionUri: uri, version, size, sha256 } = written
      const headers = { 'cache-control': 'no-store' }
      return Response.json({ uri, version, size, sha256 }, { status: 201, headers })
    } catch (error) {
      if (late.signal.aborted) return problem(408, 'TIMEOUT', TOO_SLOW)
      if (isCutOff) return problem(400, 'BROKEN_BODY', 'The body did not arrive')
      return toProblem(error)
    } finally {
      stopTimer()
    }
  }

  /** Returns the artifact that a URL `/artifacts/{scope}/{name}?version=N` names. */
  #addressOf(url: URL): ArtifactAddress | undefined {
    const version = url.searchParams.get('version')
    const query = version === null ? '' : `?version=${version}`
    return artifactAddressFrom(`artifact://${this.#segmentsOf(url)}${query}`)
  }

  #segmentsOf(url: URL): string {
    const beginning = this.#beginnings.find((each) => url.pathname.startsWith(each))
    return url.pathname.slice(beginning?.length)
  }

  #report(
    { address, artifact, caller, request }: Transfer,
    { startedAt, ...end }: { startedAt: number; bytes: number; outcome: string },
  ): void {
    const { clock, observer } = this.#options
    observer.fileTransferred({
      direction: request.method === 'PUT' ? 'upload' : 'download',
      principal: caller?.principal.id,
      isAnonymous: caller?.principal.isAnonymous ?? false,
      isLinked: caller === undefined,
      file: artifact?.sha256.slice(0, SHOWN_DIGITS),
      ...end,
      durationMs: clock.now() - startedAt,
      address,
    })
  }
}

/** Headers of a file that a stranger may have made: a browser saves it, and runs nothing of it. */
function headersOf(artifact: Artifact): Headers {
  return new Headers({
    'cache-control': 'no-store',
    'content-disposition': dispositionOf(artifact.name),
    'content-security-policy': "sandbox; default-src 'none'",
    'content-type': artifact.mimeType,
    'cross-origin-resource-policy': 'same-origin',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
  })
}

/** RFC 6266, with a second name for clients that read ASCII only. */
function dispositionOf(name: string): string {
  const plain = name.replaceAll(/[^\w .-]/g, '_')
  return `attachment; filename="${plain}"; filename*=UTF-8''${encodedName(fileNameFrom(name))}`
}

/** Returns the type that the client declared. Some HTTP clients declare every body as a form by default. */
function declaredType({ headers }: Request): string | undefined {
  const type = headers.get('content-type') ?? undefined
  return type === 'application/x-www-form-urlencoded' ? undefined : type
}

/** End of a download. */
export interface BodyEnd {
  /** Bytes that the client took. */
  readonly bytes: number
  readonly isComplete: boolean
}

/**
 * Returns the bytes as a body, and calls `onEnd` once when the client has all of them, or takes no more. Nothing is read
 * ahead.
 *
 * @param signal signal of the request: some servers abort it, and do not cancel the body
 */
export function countedBody(
  source: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
  onEnd: (end: BodyEnd) => void,
): ReadableStream<Uint8Array> {
  const iterator = source[Symbol.asyncIterator]()
  let bytes = 0
  let hasEnded = false
  const end = (isComplete: boolean): void => {
    if (hasEnded) return
    hasEnded = true
    signal.removeEventListener('abort', lose)
    if (!isComplete) void iterator.return?.().catch(() => undefined)
    onEnd({ bytes, isComplete })
  }
  const lose = (): void => end(false)
  if (signal.aborted) lose()
  else signal.addEventListener('abort', lose)
  const counted = {
    async pull(controller: ReadableStreamDefaultController<Uint8Array>) {
      try {
        const { done, value } = await iterator.next()
        if (done) {
          end(true)
          return controller.close()
        }
        bytes += value.byteLength
        controller.enqueue(value)
      } catch (error) {
        end(false)
        controller.error(error)
      }
    },
    cancel: lose,
  }
  return new ReadableStream(counted, { highWaterMark: 0 })
}

/** An error for people and programs. */
function problem(status: number, code: string, message: string): Response {
  const headers = new Headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' })
  if (status === 503) headers.set('retry-after', '1')
  return Response.json({ error: code, message }, { status, headers })
}

/** Errors of the caller. The messages of others name parts of the gateway: they are for its log only. */
const STATUS: Readonly<Partial<Record<GatewayErrorCode, number>>> = {
  LIMIT: 413,
  QUOTA: 507,
  NOT_FOUND: 404,
}
const UNAVAILABLE = 'Files cannot be reached now. Try again in a moment.'

/** @throws every error that is not a `GatewayError` */
function toProblem(error: unknown): Response {
  if (!GatewayError.is(error)) throw error
  const { code } = error
  const message = withoutErrorLink(error.message)
  const status = STATUS[code]
  return status ? problem(status, code, message) : problem(503, code, UNAVAILABLE)
}

const OUTCOMES: Readonly<Record<number, string>> = {
  400: 'invalid',
  404: 'not_found',
  408: 'too_slow',
  413: 'too_large',
  503: 'unavailable',
  507: 'no_room',
}

function outcomeOf({ ok, status }: Response): string {
  return ok ? 'ok' : (OUTCOMES[status] ?? 'failed')
}
