import { assertOptions, check } from '@x/internal'
import type { Check, Checks } from '@x/internal'
import type { Dispatcher } from 'undici'
import type { DebugStateConfig } from './debug-state-config.ts'
import { DebugStateError } from './debug-state-error.ts'
import { encodeSegment } from './debug-state-key.ts'

/** A value as the service holds it. */
export interface RemoteValue {
  /** `undefined` if there is none; an empty body counts as none. */
  readonly text: string | undefined
  /** Version of the value; a service without strong ETags gives none. */
  readonly etag: string | undefined
}

/** What must be true of the stored value for a write to happen: RFC 9110, section 13. */
export type WriteCondition = { readonly ifMatch: string } | { readonly ifAbsent: true } | undefined

/** `conflict`: the condition did not hold, nothing was written. */
export type WriteOutcome = 'conflict' | { readonly etag: string | undefined }

export interface DebugStateClientOptions extends DebugStateConfig {
  /** Not closed by the client. */
  readonly dispatcher: Dispatcher
  /** Limit of one request with everything in it, the token function and the body too. @default 2000 */
  readonly timeoutMs?: number | undefined
}

export const debugStateToken: Check = check.or(check.string, check.func)

const optionChecks: Checks<DebugStateClientOptions> = {
  origin: check.required(check.text),
  path: check.required(check.string),
  agentId: check.required(check.text),
  token: debugStateToken,
  dispatcher: check.required(check.dispatcher),
  timeoutMs: check.number(),
}

/**
 * The three requests of the protocol (PROTOCOL.md), for the keys of one agent. Each takes `timeoutMs` at
 * most, is sent once, and throws `DebugStateError` only.
 */
export class DebugStateClient {
  readonly #options: DebugStateClientOptions
  readonly #timeoutMs: number

  /** @throws TypeError for options that are unknown or have a wrong value */
  constructor(options: DebugStateClientOptions) {
    assertOptions('DebugStateClient', options, optionChecks)
    this.#options = options
    this.#timeoutMs = options.timeoutMs ?? 2000
  }

  /** GET. A key that is not there is no error. */
  async read(key: string): Promise<RemoteValue> {
    const answer = await this.#exchange({ method: 'GET', key })
    if (answer.status === 404 || answer.status === 204) return { text: undefined, etag: undefined }
    if (answer.status !== 200) throw statusError(answer.status, 'GET')
    return { text: answer.text || undefined, etag: answer.etag }
  }

  /** PUT, if `condition` holds. Without one, whatever is stored is replaced. */
  async write(key: string, text: string, condition: WriteCondition): Promise<WriteOutcome> {
    const answer = await this.#exchange({ method: 'PUT', key, text, condition })
    if (condition && answer.status === 412) return 'conflict'
    if (!isSuccess(answer.status)) throw statusError(answer.status, 'PUT')
    return { etag: answer.etag }
  }

  /** DELETE, if `condition` holds. A key that is not there counts as removed. */
  async remove(key: string, condition: WriteCondition): Promise<WriteOutcome> {
    const answer = await this.#exchange({ method: 'DELETE', key, condition })
    if (condition && answer.status === 412) return 'conflict'
    if (!isSuccess(answer.status) && answer.status !== 404) {
      throw statusError(answer.status, 'DELETE')
    }
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
    const { dispatcher, origin, path, agentId } = this.#options
    const token = await this.#token(signal)
    const { statusCode, headers, body } = await dispatcher.request({
      origin,
      path: `${path}/${encodeSegment(agentId)}/${encodeSegment(request.key)}`,
      method: request.method,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(request.text === undefined ? {} : { 'content-type': 'text/plain' }),
        ...conditionHeaders(request.condition),
      },
      ...(request.text === undefined ? {} : { body: request.text }),
      signal,
    })
    const text = statusCode === 200 && request.method === 'GET' ? await boundedText(body) : ''
    // The status says it all; the rest is read only so that the connection can be used again.
    await body.dump({ limit: MAX_ANSWER_BYTES, signal }).catch(() => {})
    return { status: statusCode, etag: strongEtag(headers['etag']), text }
  }

  async #token(signal: AbortSignal): Promise<string | undefined> {
    const { token } = this.#options
    if (typeof token !== 'function') return token
    try {
      return await untilAborted(async () => token(), signal)
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

/** Twice what the service takes: a service that allows more is still understood. */
const MAX_ANSWER_BYTES = 128 * 1024

function conditionHeaders(condition: WriteCondition): Record<string, string> {
  if (condition === undefined) return {}
  return 'ifMatch' in condition ? { 'if-match': condition.ifMatch } : { 'if-none-match': '*' }
}

/** A weak ETag cannot stand in `If-Match` (RFC 9110, section 13.1.1). */
function strongEtag(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' && /^"[\x21\x23-\x7E]{1,256}"$/.test(header)
    ? header
    : undefined
}

async function boundedText(body: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body) {
    bytes += chunk.length
    if (bytes > MAX_ANSWER_BYTES) {
      const message = `The debug-state service answered more than ${MAX_ANSWER_BYTES} bytes`
      throw new DebugStateError('TOO_LARGE', message)
    }
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function untilAborted<Result>(work: () => Promise<Result>, signal: AbortSignal): Promise<Result> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    void work()
      .then(resolve, reject)
      .finally(() => signal.removeEventListener('abort', onAbort))
  })
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300
}

function statusError(status: number, method: string): DebugStateError {
  const message = `The debug-state service answered ${method} with ${status}`
  if (status === 401 || status === 403) {
    return new DebugStateError('UNAUTHORIZED', `${message}: check the token`, { status })
  }
  if (status === 413) {
    return new DebugStateError('TOO_LARGE', `${message}: the record is too large`, { status })
  }
  return new DebugStateError('REJECTED', message, { status })
}
