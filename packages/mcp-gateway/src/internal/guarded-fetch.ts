import type { IncomingMessage } from 'node:http'

import { check, untilAborted } from '@x/internal'
import type { Checks } from '@x/internal'
import { type Clock, systemClock } from './clock.ts'
import { assertGatewayOptions, GatewayError } from '../errors.ts'
import { addressesOf, type AddressRules, refused, systemResolve } from './address-rules.ts'
import { boundedStream } from './bounded-stream.ts'
import { pinnedRequest, type ResolvedAddress } from './pinned-request.ts'

export interface GuardedFetchOptions {
  /** Origins that an operator named, as `http://10.0.0.7:8080`: there, any address and http will do. @default none */
  readonly trustedOrigins?: readonly string[] | undefined
  /** Allows http to public addresses. @default false */
  readonly allowHttp?: boolean | undefined
  /** Of an answer. @default 16 MiB */
  readonly maxBytes?: number | undefined
  /** Until the head of an answer is there, redirects included. @default 10_000 */
  readonly headersTimeoutMs?: number | undefined
  /** Between two pieces of an answer. @default 30_000 */
  readonly idleTimeoutMs?: number | undefined
  /** All addresses of a name. @default as the system resolves it */
  readonly resolve?: ((hostname: string) => Promise<readonly ResolvedAddress[]>) | undefined
  /** @default systemClock */
  readonly clock?: Clock | undefined
}

const optionChecks: Checks<GuardedFetchOptions> = {
  trustedOrigins: check.listOf({
    takes: 'an origin such as http://10.0.0.7:8080',
    accepts: (value) => typeof value === 'string' && URL.canParse(value),
  }),
  allowHttp: check.flag,
  maxBytes: check.number(1),
  headersTimeoutMs: check.number(1),
  idleTimeoutMs: check.number(1),
  resolve: check.func,
  clock: check.methods('now', 'after'),
}

/** The shape of `fetch`, as far as it is guarded. */
export type GuardedFetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>

const MAX_REDIRECTS = 3

/**
 * `fetch` for URLs that somebody else chose: agent cards, files, documents of clients. Goes to public addresses over
 * https only, resolves a name once and connects to exactly what it checked, follows at most three redirects within
 * one origin, and bounds an answer in size and time. No cookies, no cache, no compression, a connection for each.
 *
 * @throws GatewayError `REFUSED` for what must not be asked, `UNAVAILABLE` for what cannot be reached, `LIMIT` (also
 *   while the body is read); the reason of the caller's signal
 */
export function createGuardedFetch(options: GuardedFetchOptions = {}): GuardedFetch {
  assertGatewayOptions('createGuardedFetch()', options, optionChecks)
  const rules = rulesFrom(options)
  return async (input, init) => {
    const request = new Request(input, { ...init, ...(hasBody(init) && { duplex: 'half' }) })
    const { body } = init ?? {}
    const replayable = typeof body === 'string' || body instanceof Uint8Array ? body : undefined
    return exchange(rules, request, replayable)
  }
}

interface Rules extends AddressRules {
  readonly maxBytes: number
  readonly headersTimeoutMs: number
  readonly idleTimeoutMs: number
  readonly clock: Clock
}

function rulesFrom(options: GuardedFetchOptions): Rules {
  const { trustedOrigins = [], allowHttp = false, maxBytes = 16_777_216 } = options
  const { headersTimeoutMs = 10_000, idleTimeoutMs = 30_000 } = options
  const { resolve = systemResolve, clock = systemClock } = options
  const trusted = new Set(trustedOrigins.map((origin) => new URL(origin).origin))
  return { trusted, allowHttp, maxBytes, headersTimeoutMs, idleTimeoutMs, resolve, clock }
}

async function exchange(
  rules: Rules,
  request: Request,
  replayable: string | Uint8Array | undefined,
): Promise<Response> {
  request.signal.throwIfAborted()
  const ended = new AbortController()
  const late = new GatewayError('UNAVAILABLE', `No answer within ${rules.headersTimeoutMs} ms`)
  const cancelTimer = rules.clock.after(rules.headersTimeoutMs, () => ended.abort(late))
  const signal = AbortSignal.any([request.signal, ended.signal])
  try {
    const answer = await followed(rules, request, { signal, replayable })
    return responseFrom(answer, rules, {
      end: () => ended.abort(),
      explain: (error) => explained(error, request.signal),
    })
  } catch (error) {
    throw explained(error, signal)
  } finally {
    cancelTimer()
  }
}

interface Attempt {
  readonly signal: AbortSignal
  readonly replayable: string | Uint8Array | undefined
}

/** The answer behind all redirects. */
async function followed(
  rules: Rules,
  request: Request,
  { signal, replayable }: Attempt,
): Promise<IncomingMessage> {
  let url = new URL(request.url)
  let { method } = request
  let body: Uint8Array | ReadableStream<Uint8Array> | undefined =
    replayable === undefined ? (request.body ?? undefined) : Buffer.from(replayable)
  const headers = new Headers(request.headers)
  headers.set('accept-encoding', 'identity')
  if (body instanceof Uint8Array) headers.set('content-length', `${body.byteLength}`)
  for (let redirects = 0; ; redirects++) {
    const addresses = await untilAborted(addressesOf(url, rules), signal)
    const answer = await pinnedRequest({ url, method, headers, body, addresses, signal })
    const target = redirectOf(answer, url)
    if (target === undefined || request.redirect === 'manual') return answer
    answer.resume().destroy()
    if (request.redirect === 'error') throw refused('a redirect, where none is followed')
    if (target.origin !== url.origin) throw refused('a redirect to another origin')
    if (redirects >= MAX_REDIRECTS) throw refused(`more than ${MAX_REDIRECTS} redirects`)
    const { statusCode } = answer
    if (statusCode === 303 || (statusCode !== 307 && statusCode !== 308 && method === 'POST')) {
      method = method === 'HEAD' ? 'HEAD' : 'GET'
      body = undefined
      for (const name of ['content-length', 'content-type']) headers.delete(name)
    } else if (body !== undefined && !(body instanceof Uint8Array)) {
      throw refused('a redirect of a body that was already sent')
    }
    url = target
  }
}

function redirectOf({ statusCode = 0, headers }: IncomingMessage, from: URL): URL | undefined {
  const { location } = headers
  if (![301, 302, 303, 307, 308].includes(statusCode) || location === undefined) return undefined
  if (!URL.canParse(location, from.href)) throw refused('a redirect to what is no URL')
  return new URL(location, from.href)
}

function responseFrom(
  answer: IncomingMessage,
  { maxBytes, idleTimeoutMs, clock }: Rules,
  { end, explain }: { end: () => void; explain: (error: unknown) => unknown },
): Response {
  answer.on('error', () => undefined) // told to whoever reads; to nobody else
  const status = answer.statusCode ?? 502
  const headers = new Headers()
  for (let at = 0; at + 1 < answer.rawHeaders.length; at += 2) {
    headers.append(answer.rawHeaders[at] ?? '', answer.rawHeaders[at + 1] ?? '')
  }
  if (Number(headers.get('content-length')) > maxBytes) {
    end()
    throw new GatewayError('LIMIT', `An answer is longer than ${maxBytes} bytes`)
  }
  if (status === 204 || status === 205 || status === 304) {
    answer.resume()
    return new Response(null, { status, headers })
  }
  const body = boundedStream(answer, { maxBytes, idleTimeoutMs, clock, explain, onEnd: end })
  return new Response(body, { status, headers })
}

/** What went wrong, in our words; the caller's own reason stays its own. */
function explained(error: unknown, signal: AbortSignal): unknown {
  if (GatewayError.is(error)) return error
  if (signal.aborted) return signal.reason
  return new GatewayError('UNAVAILABLE', 'The address cannot be reached', { cause: error })
}

function hasBody(init: RequestInit | undefined): boolean {
  return init?.body !== undefined && init.body !== null
}
