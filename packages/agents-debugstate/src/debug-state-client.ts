import { readAtMost, untilAborted } from '@x/internal'
import type { Dispatcher } from 'undici'
import { encodeSegment } from './debug-state-config.ts'
import type { DebugStateConfig } from './debug-state-config.ts'

/**
 * Why a session was not read or not stored. Stable: callers switch on it. The README says what to do about
 * each code.
 */
export type DebugStateErrorCode =
  | 'NOT_CONFIGURED' // no service address or agent id: sessions stay in memory
  | 'TOKEN' // the token function failed
  | 'TIMEOUT' // no complete answer within the limit
  | 'UNREACHABLE' // no connection, or it broke
  | 'UNAUTHORIZED' // 401 or 403
  | 'REJECTED' // any other HTTP error status
  | 'TOO_LARGE' // the value, or the answer, is over the limit
  | 'UNEXPECTED_RESPONSE' // the stored value is not a session id

export interface DebugStateErrorOptions extends ErrorOptions {
  /** Status of the HTTP answer, if there was one. */
  readonly status?: number | undefined
}

/**
 * The debug-state service could not be used. No `SessionInfo` throws this error: `onWarning` receives it, once
 * per code, and the agent goes on as if nothing were stored.
 */
export class DebugStateError extends Error {
  override readonly name = 'DebugStateError'
  readonly code: DebugStateErrorCode
  /** Status of the HTTP answer, if there was one. */
  readonly status: number | undefined

  constructor(code: DebugStateErrorCode, message: string, options: DebugStateErrorOptions = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.code = code
    this.status = options.status
  }
}

/** A value as the service holds it. */
export interface RemoteValue {
  /** `undefined` if there is none. An empty body counts as none. */
  readonly text: string | undefined
  /** Version of the value. `undefined` if the service sent no strong ETag. */
  readonly etag: string | undefined
}

/** Condition on the stored value for a write to happen (RFC 9110, section 13). */
export type WriteCondition = { readonly ifMatch: string } | { readonly ifAbsent: true } | undefined

/** `conflict`: the condition did not hold, and nothing was written. */
export type WriteOutcome = 'conflict' | { readonly etag: string | undefined }

export interface DebugStateClientOptions extends DebugStateConfig {
  /** The client does not close it. */
  readonly dispatcher: Dispatcher
  /** Limit of one request, with the token function and the body. @default 2000 */
  readonly timeoutMs?: number | undefined
}

/**
 * Sends the three requests of the protocol (PROTOCOL.md) for the keys of one agent. Each request is sent once
 * and takes `timeoutMs` at most. Methods throw `DebugStateError` only.
 */
export class DebugStateClient {
  readonly #options: DebugStateClientOptions
  readonly #timeoutMs: number

  constructor(options: DebugStateClientOptions) {
    this.#options = options
    this.#timeoutMs = options.timeoutMs ?? 2000
  }

  /** Sends GET. A missing key is not an error. */
  async read(key: string): Promise<RemoteValue> {
    const answer = await this.#exchange({ method: 'GET', key })
    if (answer.status === 404 || answer.status === 204) return { text: undefined, etag: undefined }
    if (answer.status !== 200) throw createStatusError(answer.status, 'GET')
    return { text: answer.text || undefined, etag: answer.etag }
  }

  /** Sends PUT. Without a condition it replaces any stored value. */
  async write(key: string, text: string, condition: WriteCondition): Promise<WriteOutcome> {
    const answer = await this.#exchange({ method: 'PUT', key, text, condition })
    if (condition && answer.status === 412) return 'conflict'
    if (!isSuccess(answer.status)) throw createStatusError(answer.status, 'PUT')
    return { etag: answer.etag }
  }

  /** Sends DELETE. A missing key counts as removed. */
  async remove(key: string, condition: WriteCondition): Promise<WriteOutcome> {
    const { status } = await this.#exchange({ method: 'DELETE', key, condition })
    if (condition && status === 412) return 'conflict'
    if (!isSuccess(status) && status !== 404) throw createStatusError(status, 'DELETE')
    return { etag: undefined }
  }

  async #exchange(request: ExchangeRequest): Promise<ExchangeAnswer> {
    const deadline = new AbortController()
    const timer = setTimeout(() => deadline.abort(), this.#timeoutMs)
    try {
      return await this.#send(request, deadline.signal)
    } catch (error) {
      if (error instanceof DebugStateError) throw error
      if (deadline.signal.aborted) {
        const message = `The debug-state service did not answer ${request.method} within ${this.#timeoutMs} ms`
        throw new DebugStateError('TIMEOUT', message, { cause: error })
      }
      const message = `The connection to the debug-state service at ${this.#options.origin} failed`
      throw new DebugStateError('UNREACHABLE', message, { cause: error })
    } finally {
      clearTimeout(timer)
    }
  }

  async #send(request: ExchangeRequest, signal: AbortSignal): Promise<ExchangeAnswer> {
    const { method, key, text, condition } = request
    const { dispatcher, origin, path, agentId } = this.#options
    const token = await this.#getToken(signal)
    const { statusCode, headers, body } = await dispatcher.request({
      origin,
      path: `${path}/${encodeSegment(agentId)}/${encodeSegment(key)}`,
      method,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(text === undefined ? {} : { 'content-type': 'text/plain' }),
        ...toHeaders(condition),
      },
      ...(text === undefined ? {} : { body: text }),
      signal,
    })
    const value = statusCode === 200 && method === 'GET' ? await readText(body) : ''
    // The rest of a body is read only so that the connection can be used again.
    await body.dump({ limit: MAX_ANSWER_BYTES, signal }).catch(() => {})
    return { status: statusCode, etag: parseStrongEtag(headers['etag']), text: value }
  }

  async #getToken(signal: AbortSignal): Promise<string | undefined> {
    const { token } = this.#options
    if (typeof token !== 'function') return token
    try {
      return await untilAborted(
        (async () => token())(), // a token function may throw synchronously
        signal,
      )
    } catch (error) {
      if (signal.aborted) throw error
      throw new DebugStateError('TOKEN', 'The token function failed', { cause: error })
    }
  }
}

interface ExchangeRequest {
  readonly method: 'GET' | 'PUT' | 'DELETE'
  readonly key: string
  readonly text?: string
  readonly condition?: WriteCondition
}

interface ExchangeAnswer {
  readonly status: number
  readonly etag: string | undefined
  readonly text: string
}

/** Twice the limit of our service: other services may allow more. */
const MAX_ANSWER_BYTES = 128 * 1024

function toHeaders(condition: WriteCondition): Record<string, string> {
  if (condition === undefined) return {}
  return 'ifMatch' in condition ? { 'if-match': condition.ifMatch } : { 'if-none-match': '*' }
}

/** Returns `undefined` for a weak ETag: `If-Match` does not take one (RFC 9110, section 13.1.1). */
function parseStrongEtag(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' && /^"[\x21\x23-\x7E]{1,256}"$/.test(header)
    ? header
    : undefined
}

async function readText(body: AsyncIterable<Buffer>): Promise<string> {
  const bytes = await readAtMost(body, MAX_ANSWER_BYTES)
  if (bytes !== undefined) return bytes.toString('utf8')
  const message = `The debug-state service answered more than ${MAX_ANSWER_BYTES} bytes`
  throw new DebugStateError('TOO_LARGE', message)
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300
}

function createStatusError(status: number, method: string): DebugStateError {
  const message = `The debug-state service answered ${method} with ${status}`
  if (status === 401 || status === 403) {
    return new DebugStateError('UNAUTHORIZED', `${message}: check the token`, { status })
  }
  if (status === 413) {
    return new DebugStateError('TOO_LARGE', `${message}: the record is too large`, { status })
  }
  return new DebugStateError('REJECTED', message, { status })
}
