import { CodedError, LONGEST_MS, readAtMost, untilAborted } from '@x/internal'
import type { Dispatcher } from 'undici'
import { encodeSegment } from './debug-state-config.ts'
import type { DebugStateConfig } from './debug-state-config.ts'

/**
 * Why a session was not read or not stored. Stable: callers switch on it. docs/reference/errors.md says
 * what to do about each code.
 */
export type DebugStateErrorCode =
  | 'NOT_CONFIGURED' // no service address or agent id: sessions stay in memory
  | 'TOKEN' // the token function failed
  | 'TIMEOUT' // no complete answer within the limit
  | 'UNREACHABLE' // no connection, or it broke
  | 'UNAUTHORIZED' // 401 or 403
  | 'REJECTED' // any other HTTP error status
  | 'TOO_LARGE' // the value, or the answer, is over the limit
  | 'UNEXPECTED_RESPONSE' // the stored value is not a session, or has a newer format

/**
 * The debug-state service could not be used. No `SessionInfo` throws this error: `onWarning` receives it, once
 * per code, and the agent goes on as if nothing were stored.
 */
export class DebugStateError extends CodedError<DebugStateErrorCode> {
  override readonly name = 'DebugStateError'
  /** Status of the HTTP answer, if there was one. */
  readonly status: number | undefined

  constructor(
    code: DebugStateErrorCode,
    message: string,
    options: ErrorOptions & { readonly status?: number } = {},
  ) {
    super(code, message, options)
    this.status = options.status
  }
}

export interface DebugStateClientOptions extends DebugStateConfig {
  /** The client does not close it. */
  readonly dispatcher: Dispatcher
  /** Limit of one request, with the token function and the body. */
  readonly timeoutMs: number
}

type Method = 'GET' | 'PUT' | 'DELETE'

interface DebugStateAnswer {
  readonly status: number
  /** `undefined` if the body of an error answer is too large or incomplete. */
  readonly body: Buffer | undefined
}

/** Largest body of an answer. Twice the limit of our service: other services may allow more. */
const MAX_ANSWER_BYTES = 128 * 1024

/**
 * Sends the three requests of the protocol (PROTOCOL.md) for the keys of one agent. Each request is sent once
 * and takes `timeoutMs` at most. Methods throw `DebugStateError` only.
 */
export class DebugStateClient {
  readonly #options: DebugStateClientOptions

  constructor(options: DebugStateClientOptions) {
    this.#options = options
  }

  /** Sends GET. Returns `undefined` for a missing key and for an empty value. */
  async read(key: string): Promise<string | undefined> {
    const { status, body } = await this.#request('GET', key)
    if (status === 404 || status === 204) return undefined
    if (status !== 200) throw createStatusError(status, 'GET')
    return body?.toString() || undefined
  }

  /** Sends PUT, or DELETE for `undefined`. */
  async write(key: string, text: string | undefined): Promise<void> {
    const method = text === undefined ? 'DELETE' : 'PUT'
    const { status } = await this.#request(method, key, text)
    const isDone = (status >= 200 && status < 300) || (text === undefined && status === 404)
    if (!isDone) throw createStatusError(status, method)
  }

  async #request(method: Method, key: string, text?: string): Promise<DebugStateAnswer> {
    const { timeoutMs, dispatcher, origin, path, agentId } = this.#options
    const deadline = new AbortController()
    const { signal } = deadline
    const timer = setTimeout(() => deadline.abort(), Math.min(timeoutMs, LONGEST_MS))
    try {
      const token = await this.#getToken(signal)
      const answer = await dispatcher.request({
        origin,
        path: `${path}/${encodeSegment(agentId)}/${encodeSegment(key)}`,
        method,
        headers: {
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
          ...(text === undefined ? {} : { 'content-type': 'text/plain' }),
        },
        ...(text === undefined ? {} : { body: text }),
        signal,
      })
      const { statusCode: status } = answer
      const isValue = status === 200 && method === 'GET'
      const body = await readAtMost(answer.body, MAX_ANSWER_BYTES).catch((error: unknown) => {
        if (isValue) throw error
        return undefined // other bodies are read only so that the connection can be used again
      })
      if (!isValue || body !== undefined) return { status, body }
      const message = `The debug-state service answered more than ${MAX_ANSWER_BYTES} bytes`
      throw new DebugStateError('TOO_LARGE', message)
    } catch (cause) {
      if (cause instanceof DebugStateError) throw cause
      if (signal.aborted) {
        const message = `The debug-state service did not answer ${method} within ${timeoutMs} ms`
        throw new DebugStateError('TIMEOUT', message, { cause })
      }
      const message = `The connection to the debug-state service at ${origin} failed`
      throw new DebugStateError('UNREACHABLE', message, { cause })
    } finally {
      clearTimeout(timer)
    }
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

function createStatusError(status: number, method: Method): DebugStateError {
  const message = `The debug-state service answered ${method} with ${status}`
  if (status === 401 || status === 403) {
    return new DebugStateError('UNAUTHORIZED', `${message}: check the token`, { status })
  }
  if (status === 413) {
    return new DebugStateError('TOO_LARGE', `${message}: the record is too large`, { status })
  }
  return new DebugStateError('REJECTED', message, { status })
}
