import { isAscii, isUtf8 } from 'node:buffer'
import { Hono } from 'hono'
import { TokenTable } from './access.ts'
import type { DebugStateTokenGrant } from './access.ts'
import { namedResourceFrom } from './address.ts'
import { boundedBody } from './bounded-body.ts'
import { errorFields } from './debug-state-logger.ts'
import type { DebugStateLogger } from './debug-state-logger.ts'
import type { DebugStateAddress, DebugStateStore } from './debug-state-store.ts'
import { etagOf, holds, preconditionFrom } from './precondition.ts'
import { problem } from './problem.ts'
import { requestLog } from './request-log.ts'
import type { RequestVariables } from './request-log.ts'

export interface DebugStateLimits {
  /** Largest value, in bytes. @default 65_536 */
  readonly bodyBytes?: number | undefined
  /** How long a value is kept after it was last written. @default 2_592_000_000, which is 30 days */
  readonly ttlMs?: number | undefined
  /** Keys in one list; the rest is left out and the list says so. @default 1000 */
  readonly listedKeys?: number | undefined
}

export interface DebugStateHandlerOptions {
  /** Stays the caller's to close. */
  readonly store: DebugStateStore
  /** @default none: whoever reaches the handler may use it */
  readonly tokens?: readonly DebugStateTokenGrant[] | undefined
  readonly limits?: DebugStateLimits | undefined
  /** Path before the agent id. @default 'agenthub_/design/debugstate' */
  readonly pathPrefix?: string | undefined
  /** Told of each request, and of failures of the store. @default none */
  readonly logger?: DebugStateLogger | undefined
  /**
   * Told of failures of the store; the client only learns that there was one.
   * @default process.emitWarning; nothing where there is a logger
   */
  readonly onError?: ((error: unknown) => void) | undefined
  /** Milliseconds since the epoch, for the ages in a list. @default Date.now */
  readonly now?: (() => number) | undefined
}

/** Always resolves: what goes wrong is an answer (PROTOCOL.md, "Errors"). */
export type FetchHandler = (request: Request) => Promise<Response>

/** The service without a server: it can be mounted in any fetch-shaped application. */
export function createDebugStateHandler(
  options: DebugStateHandlerOptions,
  tokens: TokenTable | undefined = options.tokens && new TokenTable(options.tokens),
): FetchHandler {
  const { store, limits = {}, logger, now = Date.now } = options
  const { onError = logger === undefined ? warn : undefined } = options
  const { bodyBytes = 65_536, ttlMs = 30 * DAY_MS, listedKeys = 1000 } = limits
  const { pathPrefix = 'agenthub_/design/debugstate' } = options
  const prefix = `/${pathPrefix}/`.replace(/^\/+|\/+$/g, '/')

  const app = new Hono<{ Variables: RequestVariables }>({ getPath: pathOf })
  if (logger !== undefined) app.use(requestLog(logger))

  app.all('/health', async ({ req: { raw: request } }) => {
    if (!isRead(request)) return methodNotAllowed('GET, HEAD')
    await store.list('health', 1)
    return healthy()
  })

  app.all('/health/live', async ({ req: { raw: request } }) =>
    isRead(request) ? healthy() : methodNotAllowed('GET, HEAD'),
  )

  app.all(`${prefix}*`, async (context) => {
    const request = context.req.raw
    const access = tokens ? tokens.accessOf(request.headers.get('authorization')) : EVERYTHING
    if (access === undefined) {
      const detail = 'Send a known token: `Authorization: Bearer …`'
      return problem('UNAUTHORIZED', detail, { 'www-authenticate': 'Bearer' })
    }
    const named = namedResourceFrom(pathOf(request).slice(prefix.length))
    if ('code' in named) return problem(named.code, named.detail)
    const { agentId, key } = named
    if (logger !== undefined) context.set('named', named)
    if (!access(agentId)) return problem('FORBIDDEN', 'The token is not for this agent')
    if (key === undefined) {
      return isRead(request) ? list(agentId) : methodNotAllowed('GET, HEAD')
    }
    if (isRead(request)) return read({ agentId, key }, request)
    if (request.method === 'PUT') return write({ agentId, key }, request)
    if (request.method === 'DELETE') return remove({ agentId, key }, request)
    return methodNotAllowed('GET, HEAD, PUT, DELETE')
  })

  app.notFound(() => problem('NOT_FOUND', `Paths start with ${prefix}`))

  app.onError((error) => {
    logger?.error(errorFields(error), 'store failed')
    onError?.(error)
    return problem('STORE_FAILED', 'The value could not be read or stored; try again later')
  })

  async function read(address: DebugStateAddress, request: Request): Promise<Response> {
    const precondition = preconditionFrom(request.headers)
    if (precondition === 'malformed') return badPrecondition()
    const stored = await store.get(address)
    if (stored === undefined) return unknownKey()
    const etag = { ...NO_STORE, etag: etagOf(stored.version) }
    if (!holds({ ifMatch: precondition?.ifMatch }, stored.version)) return conflict()
    if (!holds({ ifNoneMatch: precondition?.ifNoneMatch }, stored.version)) {
      return new Response(null, { status: 304, headers: etag })
    }
    const headers = { ...etag, 'content-type': 'text/plain; charset=utf-8' }
    return new Response(bodyFrom(stored.bytes), { headers })
  }

  async function write(address: DebugStateAddress, request: Request): Promise<Response> {
    const precondition = preconditionFrom(request.headers)
    if (precondition === 'malformed') return badPrecondition()
    const body = await boundedBody(request, bodyBytes)
    if (body === 'too-large') {
      return problem('BODY_TOO_LARGE', `A value has at most ${bodyBytes} bytes`)
    }
    if (body === 'incomplete') return problem('BAD_REQUEST', 'The body ended before its end')
    if (!isUtf8(body)) return problem('BAD_VALUE', 'A value is text in UTF-8')
    const outcome = await store.put(address, body, { ttlMs, precondition })
    if (outcome === 'conflict') return conflict()
    const headers = { ...NO_STORE, etag: etagOf(outcome.version) }
    return new Response(null, { status: 204, headers })
  }

  async function remove(address: DebugStateAddress, request: Request): Promise<Response> {
    const precondition = preconditionFrom(request.headers)
    if (precondition === 'malformed') return badPrecondition()
    const outcome = await store.delete(address, precondition)
    if (outcome === 'conflict') return conflict()
    if (outcome === 'absent') return unknownKey()
    return new Response(null, { status: 204, headers: NO_STORE })
  }

  async function list(agentId: string): Promise<Response> {
    const entries = await store.list(agentId, listedKeys + 1)
    const body: KeyList = {
      agentId,
      keys: entries.slice(0, listedKeys).map(({ key, bytes, updatedAt, expiresAt }) => ({
        key,
        bytes,
        ageMs: Math.max(0, now() - updatedAt),
        updatedAt: new Date(updatedAt).toISOString(),
        expiresAt: new Date(expiresAt).toISOString(),
      })),
      truncated: entries.length > listedKeys,
    }
    return Response.json(body, { headers: NO_STORE })
  }

  return async (request) => app.fetch(request)
}

/** Answer to `GET …/{agentId}`. Never holds values. */
export interface KeyList {
  readonly agentId: string
  readonly keys: readonly ListedKey[]
  /** There are more keys than the list may hold. */
  readonly truncated: boolean
}

export interface ListedKey {
  readonly key: string
  readonly bytes: number
  /** Since it was last written. */
  readonly ageMs: number
  /** ISO 8601. */
  readonly updatedAt: string
  /** ISO 8601. */
  readonly expiresAt: string
}

const DAY_MS = 86_400_000
const NO_STORE = { 'cache-control': 'no-store' }
const EVERYTHING = (): boolean => true

/** Text, where that is the same bytes: Node sends it with the head, in one write, and bytes after it. */
function bodyFrom(bytes: Uint8Array): string | Uint8Array<ArrayBuffer> {
  if (!isAscii(bytes)) return new Uint8Array(bytes)
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')
}

/** As it was sent: decoding is done once, and only here we know where the key begins. */
function pathOf(request: Request): string {
  const start = request.url.indexOf('/', request.url.indexOf('://') + 3)
  const end = request.url.search(/[?#]/)
  return request.url.slice(start, end === -1 ? undefined : end)
}

function healthy(): Response {
  return Response.json({ status: 'ok' }, { headers: NO_STORE })
}

function isRead(request: Request): boolean {
  return request.method === 'GET' || request.method === 'HEAD'
}

function methodNotAllowed(allow: string): Response {
  return problem('METHOD_NOT_ALLOWED', `Allowed here: ${allow}`, { allow })
}

function badPrecondition(): Response {
  return problem('BAD_REQUEST', 'If-Match and If-None-Match hold `*` or quoted entity tags')
}

function conflict(): Response {
  return problem('CONFLICT', 'The stored value is not the one that the precondition names')
}

function unknownKey(): Response {
  return problem('NOT_FOUND', 'Nothing is stored under this key')
}

function warn(error: unknown): void {
  process.emitWarning(
    error instanceof Error ? error.message : String(error),
    'DebugStateServerWarning',
  )
}
