// oxlint-disable-next-line typescript/triple-slash-reference -- also programs that compile only this file need it
/// <reference path="../../../internal/src/undici-parts.d.ts" />
import type { LookupOptions } from 'node:dns'
import { lookup } from 'node:dns/promises'
import { isIP, type LookupFunction } from 'node:net'
import { Readable } from 'node:stream'
import { callbackify } from 'node:util'
import {
  check,
  isPublicAddress,
  LONGEST_MS,
  readAtMost,
  type Check,
  type Checks,
} from '@x/internal'
import type { Agent, Dispatcher } from 'undici'
import { assertGatewayOptions, GatewayError, type Complete } from '../errors.ts'

/** An IP address of a host name. */
export interface ResolvedAddress {
  readonly address: string
  readonly family: 4 | 6
}

export interface GuardedFetchOptions {
  /** Origins such as `http://10.0.0.7:8080` that may use http and have private addresses. @default none */
  readonly trustedOrigins?: readonly string[] | undefined
  /** Largest body of a response. Bytes. @default 16 MiB */
  readonly maxBytes?: number | undefined
  /** Time until the head of the response, with the lookup. Milliseconds. @default 10_000 */
  readonly headersTimeoutMs?: number | undefined
  /** Time between two pieces of the body of a response. Milliseconds. @default 30_000 */
  readonly idleTimeoutMs?: number | undefined
  /** Time until the last byte of the body was read. `Infinity` for streams that the caller ends. Milliseconds. @default 300_000 */
  readonly timeoutMs?: number | undefined
  /** Looks up all addresses of a host name. @default dns.lookup() */
  readonly resolve?: ((hostname: string) => Promise<readonly ResolvedAddress[]>) | undefined
}

export const originsCheck: Check = check.listOf({
  takes: 'an origin such as http://10.0.0.7:8080',
  accepts: (value) => typeof value === 'string' && URL.canParse(value),
})

const optionChecks: Checks<GuardedFetchOptions> = {
  trustedOrigins: originsCheck,
  maxBytes: check.number(1),
  headersTimeoutMs: check.number(1),
  idleTimeoutMs: check.number(1),
  timeoutMs: check.number(1),
  resolve: check.func,
}

/**
 * The shape of `fetch`. Of a request, `redirect: 'manual'` and `signal` apply, but `cache` and `credentials` do not.
 */
export type GuardedFetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>

const REDIRECTS = new Set([301, 302, 303, 307, 308])

/** Advice for operators, which is part of errors. */
const UNTRUSTED = ' (its origin is not in trustedOrigins)'

/**
 * Creates a `fetch` for URLs that others chose: agent cards, files, documents of clients. It connects to public
 * addresses over https only: each connection checks the addresses that it uses. It follows no redirects, and limits the
 * size and time of a response. It uses no cookies, no cache, no compression and a new connection for each call.
 *
 * @throws GatewayError `REFUSED` if the URL is not allowed, and for a redirect; `UNAVAILABLE` without a response;
 *   `LIMIT` for a response that is too large (also while its body is read); the reason of the caller's signal
 * @example
 * ```ts
 * import { createGuardedFetch } from '@x/mcp-gateway'
 *
 * const guarded = createGuardedFetch({ maxBytes: 1_000_000, timeoutMs: 10_000 })
 * const response = await guarded('https://files.example/report.pdf') // public addresses only
 * ```
 */
export function createGuardedFetch(options: GuardedFetchOptions = {}): GuardedFetch {
  assertGatewayOptions('createGuardedFetch()', options, optionChecks)
  const { trustedOrigins = [], maxBytes = 16_777_216 } = options
  const { headersTimeoutMs = 10_000, idleTimeoutMs = 30_000, timeoutMs = 300_000 } = options
  const { resolve = systemResolve } = options
  const trusted = new Set(trustedOrigins.map((origin) => new URL(origin).origin))
  const rules: Rules = { trusted, maxBytes, headersTimeoutMs, idleTimeoutMs, timeoutMs, resolve }
  return async (input, init) => {
    const body = init?.body ?? undefined
    const request = new Request(input, { ...init, ...(body !== undefined && { duplex: 'half' }) })
    const isWhole = typeof body === 'string' || body instanceof Uint8Array
    const stream = request.body && Readable.fromWeb(request.body)
    stream?.on('error', () => undefined) // the request fails with it, or has failed before
    return exchange(rules, request, isWhole ? body : stream)
  }
}

interface Rules extends Complete<Omit<GuardedFetchOptions, 'trustedOrigins'>> {
  readonly trusted: ReadonlySet<string>
}

async function exchange(
  rules: Rules,
  request: Request,
  body: string | Uint8Array | Readable | null,
): Promise<Response> {
  request.signal.throwIfAborted()
  const { headersTimeoutMs, idleTimeoutMs, maxBytes, timeoutMs } = rules
  const late = new AbortController()
  const endAfter = (ms: number, message: string): NodeJS.Timeout => {
    const end = (): void => late.abort(new GatewayError('UNAVAILABLE', `${message} ${ms} ms`))
    return setTimeout(end, Math.min(ms, LONGEST_MS)).unref()
  }
  const head = endAfter(headersTimeoutMs, 'No response within')
  // A body that comes byte by byte never ends by the time between two pieces.
  const whole = endAfter(timeoutMs, 'The response was not complete within')
  const signal = AbortSignal.any([request.signal, late.signal])
  let agent: Agent | undefined
  const end = (): void => {
    clearTimeout(whole)
    void agent?.destroy()
  }
  try {
    const url = new URL(request.url)
    agent = await createAgent({
      allowH2: false, // `maxResponseSize` is a limit of HTTP/1.1
      maxResponseSize: maxBytes,
      headersTimeout: 0,
      bodyTimeout: idleTimeoutMs,
      // Then the lookup is asked for all addresses.
      connect: {
        lookup: guardedLookup(url, rules),
        timeout: headersTimeoutMs,
        autoSelectFamily: true,
      },
    })
    const headers = new Headers(request.headers)
    headers.set('accept-encoding', 'identity')
    const answer = await agent.request({
      origin: url.origin,
      path: url.pathname + url.search,
      method: request.method,
      headers: Object.fromEntries(headers),
      body,
      signal,
    })
    answer.body.on('error', () => undefined) // the reader of the body gets the error
    if (REDIRECTS.has(answer.statusCode) && request.redirect !== 'manual') {
      throw refused('a redirect')
    }
    const explain = (error: unknown): unknown => toFetchError(error, request.signal, rules)
    return toResponse(answer, { maxBytes, end, explain })
  } catch (error) {
    end()
    if (body instanceof Readable) body.destroy()
    throw toFetchError(error, request.signal, rules)
  } finally {
    clearTimeout(head)
  }
}

/** Loads the parts of undici that this module uses when it needs them first. */
async function createAgent(options: Agent.Options): Promise<Agent> {
  const [{ default: UndiciAgent }, { default: api }] = await Promise.all([
    import('undici/lib/dispatcher/agent.js'),
    import('undici/lib/api/index.js'),
  ])
  return Object.assign(new UndiciAgent(options), { request: api.request })
}

/**
 * Returns the lookup for a connection to the host of a URL. It fails for addresses that may not be fetched.
 *
 * @throws GatewayError `REFUSED` for a URL that is not allowed, whatever its addresses are
 */
function guardedLookup(url: URL, { resolve, trusted }: Rules): LookupFunction {
  if (url.username !== '' || url.password !== '') throw refused('a URL with a user name')
  const isWeb = url.protocol === 'https:' || url.protocol === 'http:'
  const isTrusted = isWeb && trusted.has(url.origin)
  if (!isTrusted && url.protocol !== 'https:') {
    throw refused(`${url.protocol} instead of https:${isWeb ? UNTRUSTED : ''}`)
  }
  const assertAllowed = (addresses: readonly ResolvedAddress[]): void => {
    // A single address that is not public is enough: such an answer may be an attack.
    if (isTrusted || addresses.every(({ address }) => isPublicAddress(address))) return
    throw refused(`an address that is not public${UNTRUSTED}`)
  }
  // `URL` has normalised octal, hexadecimal, short and decimal spellings of IPv4. An address is not looked up.
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  if (isIP(host) !== 0) assertAllowed([toResolved(host)])
  return callbackify(async (hostname: string, _options: LookupOptions) => {
    const addresses = await resolve(hostname)
    if (addresses.length === 0) {
      throw new GatewayError('UNAVAILABLE', 'The host name has no address')
    }
    assertAllowed(addresses)
    return [...addresses]
  })
}

async function systemResolve(hostname: string): Promise<readonly ResolvedAddress[]> {
  const all = await lookup(hostname, { all: true })
  return all.map(({ address }) => toResolved(address))
}

function toResolved(address: string): ResolvedAddress {
  return { address, family: isIP(address) === 6 ? 6 : 4 }
}

function toResponse(
  answer: Dispatcher.ResponseData,
  {
    maxBytes,
    end,
    explain,
  }: { maxBytes: number; end: () => void; explain: (error: unknown) => unknown },
): Response {
  const { statusCode: status } = answer
  const headers = new Headers()
  for (const [name, value = []] of Object.entries(answer.headers)) {
    for (const each of [value].flat()) headers.append(name, each)
  }
  if (Number(headers.get('content-length')) > maxBytes) throw tooLarge(maxBytes)
  if (status === 204 || status === 205 || status === 304) {
    end()
    return new Response(null, { status, headers })
  }
  const pieces: AsyncIterator<Buffer> = answer.body[Symbol.asyncIterator]()
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await pieces.next()
          if (!done) return controller.enqueue(value)
          end()
          controller.close()
        } catch (error) {
          end()
          controller.error(explain(error))
        }
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  )
  return new Response(body, { status, headers })
}

/** Turns any error into one of the errors of a guarded fetch. */
function toFetchError(
  error: unknown,
  caller: AbortSignal,
  { maxBytes, idleTimeoutMs }: Rules,
): unknown {
  if (GatewayError.is(error)) return error
  if (caller.aborted) return caller.reason
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE') return tooLarge(maxBytes)
  if (code === 'UND_ERR_BODY_TIMEOUT') {
    const message = `The response stopped: no data within ${idleTimeoutMs} ms`
    return new GatewayError('UNAVAILABLE', message, { cause: error })
  }
  return new GatewayError('UNAVAILABLE', 'The address cannot be reached', { cause: error })
}

/** The message does not contain the URL, which may hold secrets. */
function refused(what: string): GatewayError {
  return new GatewayError('REFUSED', `Refused to fetch: ${what}`)
}

function tooLarge(maxBytes: number): GatewayError {
  return new GatewayError('LIMIT', `The response is larger than ${maxBytes} bytes`)
}

/**
 * Reads the whole body of a response or a request. It stops reading after `maxBytes`.
 *
 * @throws GatewayError `LIMIT` for a larger body; errors of the stream
 */
export async function readBounded({ body }: Response | Request, maxBytes: number): Promise<Buffer> {
  const bytes = body === null ? Buffer.alloc(0) : await readAtMost(body, maxBytes)
  if (bytes === undefined) throw tooLarge(maxBytes)
  return bytes
}
