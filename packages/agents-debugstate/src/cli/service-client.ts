import { createDispatcher } from '@x/mcp-transport'
import type { Dispatcher } from 'undici'
import type { DebugStateConfig } from '../debug-state-config.ts'
import { encodeSegment } from '../debug-state-key.ts'
import type { KeyList, ListedKey } from '../server/debug-state-handler.ts'
import { CommandError, lineFrom } from './command-error.ts'

/** Asks a running service on behalf of a person. Every failure is a `CommandError` that says what to do. */
export class ServiceClient implements AsyncDisposable {
  readonly #config: DebugStateConfig
  readonly #dispatcher: Dispatcher

  constructor(config: DebugStateConfig) {
    this.#config = config
    this.#dispatcher = createDispatcher({ connections: 1 })
  }

  async list(): Promise<KeyList> {
    const { status, body } = await this.#ask('GET')
    if (status !== 200) throw this.#refusal(status, body)
    const list = keyListFrom(jsonFrom(body))
    if (list === undefined) throw new CommandError(`${this.#place} did not answer with a list`)
    return list
  }

  /** The bytes as they are stored; `undefined`: there are none. */
  async get(key: string): Promise<Buffer | undefined> {
    const { status, body } = await this.#ask('GET', key)
    if (status === 404 || status === 204) return undefined
    if (status !== 200) throw this.#refusal(status, body)
    return body
  }

  /** `false`: there was nothing. */
  async delete(key: string): Promise<boolean> {
    const { status, body } = await this.#ask('DELETE', key)
    if (status === 404) return false
    if (status < 200 || status > 299) throw this.#refusal(status, body)
    return true
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#dispatcher.close()
  }

  async #ask(method: 'GET' | 'DELETE', key?: string): Promise<Answer> {
    const { origin, path, agentId, token } = this.#config
    const segments = [agentId, ...(key === undefined ? [] : [key])].map(encodeSegment)
    const signal = AbortSignal.timeout(TIMEOUT_MS)
    try {
      const { statusCode, body } = await this.#dispatcher.request({
        origin,
        path: [path, ...segments].join('/'),
        method,
        headers: typeof token === 'string' ? { authorization: `Bearer ${token}` } : {},
        signal,
      })
      return { status: statusCode, body: await bounded(body) }
    } catch (cause) {
      if (cause instanceof CommandError) throw cause
      const what = signal.aborted ? `did not answer within ${TIMEOUT_MS / 1000} s` : 'is not there'
      const detail = signal.aborted ? '' : ` (${lineFrom(cause) || codeOf(cause)})`
      throw new CommandError(`The service at ${origin} ${what}: check --url${detail}`, { cause })
    }
  }

  get #place(): string {
    return `The service at ${this.#config.origin}`
  }

  #refusal(status: number, body: Buffer): CommandError {
    const told = detailFrom(jsonFrom(body))
    const advice = ADVICE.get(status)
    const parts = [`${this.#place} answered ${status}`, told, advice]
    return new CommandError(parts.filter((part) => part !== undefined).join(': '))
  }
}

const TIMEOUT_MS = 5000
const MAX_BYTES = 16 * 1024 * 1024

const ADVICE: ReadonlyMap<number, string> = new Map([
  [401, 'set DEBUGSTATE_TOKEN'],
  [403, 'use a token for this agent'],
  [404, 'check --url and --path-prefix'],
])

interface Answer {
  readonly status: number
  readonly body: Buffer
}

async function bounded(body: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body) {
    bytes += chunk.length
    if (bytes > MAX_BYTES) throw new CommandError(`The answer has more than ${MAX_BYTES} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function jsonFrom(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}

function detailFrom(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || !('detail' in value)) return undefined
  return typeof value.detail === 'string' ? lineFrom(value.detail).slice(0, 300) : undefined
}

function keyListFrom(value: unknown): KeyList | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  if (!('agentId' in value && 'keys' in value && 'truncated' in value)) return undefined
  const { agentId, keys, truncated } = value
  if (typeof agentId !== 'string' || typeof truncated !== 'boolean') return undefined
  return Array.isArray(keys) && keys.every(isListedKey) ? { agentId, keys, truncated } : undefined
}

function isListedKey(value: unknown): value is ListedKey {
  if (typeof value !== 'object' || value === null) return false
  if (!('key' in value && 'bytes' in value && 'ageMs' in value)) return false
  if (!('updatedAt' in value && 'expiresAt' in value)) return false
  const { key, bytes, ageMs, updatedAt, expiresAt } = value
  const texts = [key, updatedAt, expiresAt].every((text) => typeof text === 'string')
  return texts && [bytes, ageMs].every((number) => Number.isFinite(number))
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'no connection'
}
