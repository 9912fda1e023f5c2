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

/**
 * The debug-state service could not be used. No `SessionInfo` throws this error: `onWarning` receives it, once
 * per code, and the agent goes on as if nothing were stored.
 */
export class DebugStateError extends Error {
  override readonly name = 'DebugStateError'
  readonly code: DebugStateErrorCode
  /** Status of the HTTP answer, if there was one. */
  readonly status: number | undefined

  constructor(
    code: DebugStateErrorCode,
    message: string,
    options: ErrorOptions & { readonly status?: number } = {},
  ) {
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
  /** Limit of one request, with the token function and the body. */
  readonly timeoutMs: number
  /** Largest body of an answer. */
  readonly maxBytes: number
}

/** Without a key, the request is about all keys of the agent. */
interface DebugStateRequest {
  readonly method: 'GET' | 'PUT' | 'DELETE'
  readonly key: string | undefined
  readonly text: string | undefined
  readonly condition: WriteCondition
}

interface DebugStateAnswer {
  readonly status: number
  /** Only a strong one: `If-Match` takes no other (RFC 9110, section 13.1.1). */
  readonly etag: string | undefined
  /** `undefined` if the body of an error answer is too large or incomplete. */
  readonly body: Buffer | undefined
}

/**
 * Sends the three requests of the protocol (PROTOCOL.md) for the keys of one agent. Each request is sent once
 * and takes `timeoutMs` at most. Methods throw `DebugStateError` only.
 */
export class DebugStateClient {
  readonly #options: DebugStateClientOptions

  constructor(options: DebugStateClientOptions) {
    this.#options = options
  }

  /** Sends GET. A missing key is not an error. */
  async read(key: string): Promise<RemoteValue> {
    const { status, etag, body } = await this.request({
      method: 'GET',
      key,
      text: undefined,
      condition: undefined,
    })
    if (status === 404 || status === 204) return { text: undefined, etag: undefined }
    if (status !== 200) throw createStatusError(status, 'GET')
    return { text: body?.toString() || undefined, etag }
  }

  /** Sends PUT, or DELETE for `undefined`. Without a condition it replaces any stored value. */
  async write(
    key: string,
    text: string | undefined,
    condition: WriteCondition,
  ): Promise<WriteOutcome> {
    const method = text === undefined ? 'DELETE' : 'PUT'
    const { status, etag } = await this.request({ method, key, text, condition })
    if (condition && status === 412) return 'conflict'
    const isDone = (status >= 200 && status < 300) || (text === undefined && status === 404)
    if (!isDone) throw createStatusError(status, method)
    return { etag: text === undefined ? undefined : etag }
  }

  /** Sends any request, and returns any answer. */
  async request(request: DebugStateRequest): Promise<DebugStateAnswer> {
    const { timeoutMs, origin } = this.#options
    const deadline = new AbortController()
    const timer = setTimeout(() => deadline.abort(), timeoutMs)
    try {
      return await this.#send(request, deadline.signal)
    } catch (cause) {
      if (cause instanceof DebugStateError) throw cause
      if (deadline.signal.aborted) {
        const message = `The debug-state service did not answer ${request.method} within ${timeoutMs} ms`
        throw new DebugStateError('TIMEOUT', message, { cause })
      }
      const message = `The connection to the debug-state service at ${origin} failed`
      throw new DebugStateError('UNREACHABLE', message, { cause })
    } finally {
      clearTimeout(timer)
    }
  }

  async #send(request: DebugStateRequest, signal: AbortSignal): Promise<DebugStateAnswer> {
    const { method, key, text, condition } = request
    const { dispatcher, origin, path, agentId, maxBytes } = this.#options
    const token = await this.#getToken(signal)
    const segments = key === undefined ? [agentId] : [agentId, key]
    const answer = await dispatcher.request({
      origin,
      path: [path, ...segments.map(encodeSegment)].join('/'),
      method,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(text === undefined ? {} : { 'content-type': 'text/plain' }),
        ...toHeaders(condition),
      },
      ...(text === undefined ? {} : { body: text }),
      signal,
    })
    const { etag } = answer.headers
    const isValue = answer.statusCode === 200 && method === 'GET'
    const body = await readAtMost(answer.body, maxBytes).catch((error: unknown) => {
      if (isValue) throw error
      return undefined // other bodies are read only so that the connection can be used again
    })
    if (isValue && body === undefined) {
      const message = `The debug-state service answered more than ${maxBytes} bytes`
      throw new DebugStateError('TOO_LARGE', message)
    }
    const isStrong = typeof etag === 'string' && /^"[\x21\x23-\x7E]{1,256}"$/.test(etag)
    return { status: answer.statusCode, etag: isStrong ? etag : undefined, body }
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

function toHeaders(condition: WriteCondition): Record<string, string> {
  if (condition === undefined) return {}
  return 'ifMatch' in condition ? { 'if-match': condition.ifMatch } : { 'if-none-match': '*' }
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
