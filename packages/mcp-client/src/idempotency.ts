import { isRecord, LONGEST_MS } from '@x/internal'
import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { TransportError } from '@x/mcp-transport'
import type { TransportErrorCode } from '@x/mcp-transport'
import { getTransportError, McpClientError } from './errors.ts'
import type { CallToolOptions } from './options.ts'
import type { ServerConnection } from './requests.ts'
import { isAway, retryDelayMs } from './retry.ts'
import type { RetryRules } from './retry.ts'
import type { ScopeSlot } from './scope-slot.ts'

/** Names in `_meta` and in the capabilities of a server, for idempotency keys. */
const IDEMPOTENCY = 'io.github.x-mcp/idempotency'
const IDEMPOTENCY_KEY = 'io.github.x-mcp/idempotency-key'

/**
 * Retries of a call whose key is honoured, without `maxRetries`, while its server answers: a server that always answers
 * in the same way must not keep the caller waiting. They take 6 to 11 s.
 */
export const KEYED_RETRIES = 7

/** Returns the time for which a server honours keys, in milliseconds. Undefined if it does not. */
export function retentionOf({
  endpoint,
  serverCapabilities,
}: ServerConnection): number | undefined {
  if (endpoint === undefined) return undefined // the keys of a child process end with it
  const { extensions, experimental } = serverCapabilities ?? {}
  const advertised = [extensions, experimental].map((all) =>
    isRecord(all) ? all[IDEMPOTENCY] : undefined,
  )
  const { retentionMs } = advertised.find(isRecord) ?? {}
  return typeof retentionMs === 'number' && retentionMs > 0 ? retentionMs : undefined
}

/** A call with an idempotency key. May be sent again while the server honours the key, also if it may have run. */
export class KeyedCall {
  readonly #slot: ScopeSlot
  /** By the clock of `performance.now()`. */
  readonly #startedAt: number
  /** Not known before the client has reached the server. */
  #retentionMs: number | undefined
  /** The failure that only the key resolves. */
  #failure: unknown
  /** Number of failed attempts after which the call was sent again. */
  failures = 0
  /** Error of the last of them. */
  lastError: unknown

  constructor(slot: ScopeSlot, tool: string | undefined, sentAt: number | undefined) {
    this.#slot = slot
    // After a clock was set back, the age is not known. Then it counts as the least time by which it was set back.
    const ageMs = sentAt === undefined ? 0 : Math.abs(Date.now() - sentAt)
    this.#startedAt = performance.now() - ageMs
    this.#retentionMs = slot.keyRetentionMs
    if (sentAt === undefined) return
    const { server } = slot
    const message = `tool "${tool}" of MCP server "${server}" was sent by another process, which got no answer, and the server does not honour its idempotency key: check whether the tool has run`
    const outcome = 'unknown'
    this.#failure = new McpClientError('OUTCOME_UNKNOWN', message, { server, tool, outcome })
  }

  /**
   * Before the client has reached the server, a call of an earlier process counts as honoured: attempts to open a session
   * are harmless, and `assertSendable()` decides before the call itself is sent.
   */
  get isHonoured(): boolean {
    if (this.#retentionMs === undefined) return this.#failure !== undefined
    return performance.now() - this.#startedAt < this.#retentionMs
  }

  /** Called before each attempt: a server that has replaced another one may not know the key. */
  async assertSendable(): Promise<void> {
    this.#assertHonoured()
    if (this.#failure === undefined) return
    await this.#refreshCapabilities()
    this.#assertHonoured()
  }

  #assertHonoured(): void {
    this.#retentionMs = this.#slot.keyRetentionMs ?? 0
    if (this.#failure !== undefined && !this.isHonoured) throw this.#failure
  }

  /**
   * Asks the server whether it honours keys now: another server may have taken over without a new session.
   *
   * @throws TransportError `UNREACHABLE` if the server is away, and the code of its refusal if it does not say
   */
  async #refreshCapabilities(): Promise<void> {
    const { session } = this.#slot
    if (session === undefined) return
    try {
      await session.ping()
    } catch (cause) {
      const failure = getTransportError(cause)
      const message = 'The server did not say whether it still honours idempotency keys'
      const { url, status, retryAfterMs } = failure ?? {}
      const about = { cause, url, status, retryAfterMs, outcome: 'not-executed' } as const
      throw new TransportError(refusalCode(cause, failure), message, about)
    }
  }

  /** Records a failed attempt. Returns true if only the key allows another one. */
  failed(error: unknown, rules: RetryRules): boolean {
    this.failures++
    this.lastError = getTransportError(error) ?? error
    const needsKey = retryDelayMs(error, { ...rules, hasKey: false }, LONGEST_MS) === undefined
    if (needsKey) this.#failure ??= error
    return needsKey
  }
}

/** Returns the code for a ping without a result. `UNREACHABLE`: the same ping may succeed later. */
function refusalCode(error: unknown, failure: TransportError | undefined): TransportErrorCode {
  if (failure === undefined)
    return error instanceof McpError ? 'UNEXPECTED_RESPONSE' : 'UNREACHABLE'
  // A ping that could not be sent in time was withdrawn, which is `CLOSED`.
  return isAway(failure) || failure.code === 'CLOSED' ? 'UNREACHABLE' : failure.code
}

const KEY = /^[\x21-\x7E]{1,255}$/

/**
 * The `_meta` of the caller, with the idempotency key.
 *
 * @throws McpClientError `CONFIG` for a key that servers may refuse, and for `sentAt` without a key
 */
export function keyedMeta(
  { meta, idempotencyKey: key }: CallToolOptions,
  { tool, server }: { readonly tool: string; readonly server: string },
): Record<string, unknown> {
  if (key !== undefined && KEY.test(key)) return { ...meta, [IDEMPOTENCY_KEY]: key }
  const problem =
    key === undefined
      ? 'sentAt needs the idempotencyKey of the earlier call'
      : 'idempotencyKey must be 1 to 255 visible ASCII characters'
  const message = `tool "${tool}" of MCP server "${server}" was not called: ${problem}`
  throw new McpClientError('CONFIG', message, { server, tool, outcome: 'not-executed' })
}
