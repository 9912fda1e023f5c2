import { isAscii, isUtf8 } from 'node:buffer'
import { hash } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import { definedFields, readAtMost, withoutErrorLink } from '@x/internal'
import { Hono } from 'hono'
import type { MiddlewareHandler } from 'hono'
import { HTTPException } from 'hono/http-exception'
import { PATH_PREFIX } from '../debug-state-config.ts'
import type { DebugStateAddress, DebugStateStore } from './debug-state-store.ts'
import { createProblem, createRefusal, MAX_VALUE_BYTES, parseAddress } from './protocol.ts'
import type { DebugStateTokenGrant, GetAccess } from './tokens.ts'

export interface DebugStateLimits {
  /** Time after its last write when a value expires. @default 2_592_000_000, which is 30 days */
  readonly ttlMs?: number | undefined
}

export interface DebugStateServerOptions {
  /** The caller closes it. */
  readonly store: DebugStateStore
  /** @default none: every caller of `fetch` has access, and every user of this machine */
  readonly tokens?: readonly DebugStateTokenGrant[] | undefined
  readonly limits?: DebugStateLimits | undefined
  /**
   * Receives a line for each request, and for each failure of the store, of which the client learns no details.
   * @default none; failures of the store are process warnings
   */
  readonly logger?: DebugStateLogger | undefined
}

/** Writes one line of a structured log. */
export type WriteLog = (fields: Readonly<Record<string, unknown>>, message: string) => void

/**
 * The log of the service. A pino logger fits. The log contains no value, no token and no key: a key is shown as
 * `sha256:` and 12 hex digits of its digest.
 */
export interface DebugStateLogger {
  /** Health requests. */
  debug: WriteLog
  /** Start, stop, and every other request. */
  info: WriteLog
  /** Problems that do not stop the service. */
  warn: WriteLog
  /** Failures of the store. */
  error: WriteLog
}

/** Always resolves: every failure is an error answer (PROTOCOL.md, "Errors"). */
export type FetchHandler = (request: Request) => Promise<Response>

/** Creates the service as a function. Without `getAccess`, every caller has access. */
export function createDebugStateHandler(
  options: DebugStateServerOptions,
  getAccess: GetAccess | undefined,
): FetchHandler {
  const { store, limits: { ttlMs = 30 * DAY_MS } = {}, logger } = options
  const prefix = `/${PATH_PREFIX}/`

  const app = new Hono<RequestVariables>({ getPath: getRawPath })
  if (logger !== undefined) app.use(logRequests(logger))

  app.all('/health', async ({ req: { raw: request } }) => {
    requireMethod(request, 'GET, HEAD')
    await store.get({ agentId: 'health', key: 'health' })
    return healthy()
  })

  app.all('/health/live', ({ req: { raw: request } }) => {
    requireMethod(request, 'GET, HEAD')
    return healthy()
  })

  app.all(`${prefix}*`, async (context) => {
    const request = context.req.raw
    const access = getAccess ? getAccess(request.headers.get('authorization')) : () => true
    if (access === undefined) {
      const detail = 'Send a known token: `Authorization: Bearer …`'
      throw createRefusal('UNAUTHORIZED', detail, { 'www-authenticate': 'Bearer' })
    }
    const address = parseAddress(getRawPath(request).slice(prefix.length))
    if (logger !== undefined) context.set('address', address)
    if (!access(address.agentId))
      throw createRefusal('FORBIDDEN', 'The token is not for this agent')
    requireMethod(request, 'GET, HEAD, PUT, DELETE')
    if (request.method === 'PUT') {
      await store.put(address, await readBody(request), ttlMs)
      return done()
    }
    if (request.method !== 'DELETE') return get(address)
    if (!(await store.delete(address))) throw unknownKey()
    return done()
  })

  app.notFound(() => createProblem('NOT_FOUND', `Paths start with ${prefix}`))

  app.onError((error) => {
    if (error instanceof HTTPException && error.res) return error.res // `getResponse()` would make it a stream
    if (logger === undefined) process.emitWarning(error.message, 'DebugStateServerWarning')
    else logger.error(getErrorFields(error), 'store failed')
    return createProblem('STORE_FAILED', 'The value could not be read or stored; try again later')
  })

  async function get(address: DebugStateAddress): Promise<Response> {
    const bytes = await store.get(address)
    if (bytes === undefined) throw unknownKey()
    const headers = { ...NO_STORE, 'content-type': 'text/plain; charset=utf-8' }
    return new Response(toBody(bytes), { headers })
  }

  return async (request) => app.fetch(request)
}

const DAY_MS = 86_400_000

const NO_STORE = { 'cache-control': 'no-store' }

/** Returns the path as it was sent. The key is decoded later, once it is known where it starts. */
function getRawPath(request: Request): string {
  const start = request.url.indexOf('/', request.url.indexOf('://') + 3)
  const end = request.url.search(/[?#]/)
  return request.url.slice(start, end === -1 ? undefined : end)
}

/**
 * Reads the value of a PUT request. The body-limit middleware of hono does not fit: it reads `request.body`, for
 * which the Node adapter has to build a full `Request`, and a chunked body that breaks off would count as a failure
 * of the store.
 *
 * @throws HTTPException for a body that is incomplete, too large, or not text
 */
async function readBody(request: Request): Promise<Uint8Array> {
  const length = request.headers.get('content-length')
  let body: Uint8Array | undefined
  try {
    if (length === null)
      body = request.body ? await readAtMost(request.body, MAX_VALUE_BYTES) : new Uint8Array()
    // An HTTP server never delivers more bytes than the header says.
    else if (Number(length) <= MAX_VALUE_BYTES) body = new Uint8Array(await request.arrayBuffer())
  } catch {
    // The client closed the connection, or was too slow.
    throw createRefusal('BAD_REQUEST', 'The body ended too early')
  }
  if (body === undefined) {
    throw createRefusal('BODY_TOO_LARGE', `A value has at most ${MAX_VALUE_BYTES} bytes`)
  }
  if (!isUtf8(body)) throw createRefusal('BAD_VALUE', 'A value must be text in UTF-8')
  return body
}

/** Returns ASCII values as a string: Node sends a string together with the headers in one write. */
function toBody(bytes: Uint8Array): string | Uint8Array<ArrayBuffer> {
  if (!isAscii(bytes)) return new Uint8Array(bytes)
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')
}

function done(): Response {
  return new Response(null, { status: 204, headers: NO_STORE })
}

function healthy(): Response {
  return Response.json({ status: 'ok' }, { headers: NO_STORE })
}

/** @throws HTTPException for a method that is not in the list `allow`. */
function requireMethod({ method }: Request, allow: string): void {
  if (allow.split(', ').includes(method)) return
  throw createRefusal('METHOD_NOT_ALLOWED', `Allowed here: ${allow}`, { allow })
}

function unknownKey(): HTTPException {
  return createRefusal('NOT_FOUND', 'Nothing is stored under this key')
}

/** Values that a handler passes to the log of its request. */
type RequestVariables = { Variables: { address: DebugStateAddress | undefined } }

/** Logs one line for each answered request. */
function logRequests(logger: DebugStateLogger): MiddlewareHandler<RequestVariables> {
  return async function logRequest(context, next) {
    const start = performance.now()
    await next()
    const { agentId, key } = context.get('address') ?? {}
    const { status } = context.res
    const about = definedFields({ agentId, key: key && getKeyDigest(key) })
    const ms = Math.round((performance.now() - start) * 100) / 100
    const isHealth = agentId === undefined && status === 200
    const level = isHealth ? 'debug' : 'info'
    logger[level]({ method: context.req.method, ...about, status, ms }, 'request')
  }
}

/** Returns the digest that stands for a key in the log. */
export function getKeyDigest(key: string): string {
  return `sha256:${hash('sha256', key, 'hex').slice(0, 12)}`
}

/** Returns the log fields of an error: messages and code, without stacks. */
function getErrorFields(error: unknown): Readonly<Record<string, unknown>> {
  if (!(error instanceof Error)) return { error: String(error) }
  const { message, cause } = error
  const reason = cause instanceof Error ? withoutErrorLink(cause.message) : ''
  return {
    error: message,
    ...('code' in error ? { code: error.code } : {}),
    ...(message.includes(reason) ? {} : { cause: reason }),
  }
}
