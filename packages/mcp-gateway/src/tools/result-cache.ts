import { hash } from 'node:crypto'
import { isCallToolResult, type CallToolResult } from '@modelcontextprotocol/server'

import { canonicalJson, isRecord } from '@x/internal'
import type { Principal } from '../internal/principal.ts'
import type { Records } from '../store/gateway-store.ts'
import type { CheckedArguments, PlannedTool } from './plan.ts'

/** A call, with everything on which its result may depend. */
export interface CachedCall {
  readonly tool: Pick<PlannedTool, 'agent' | 'skill' | 'cacheTtlMs' | 'definition'>
  readonly principal: Principal
  readonly arguments: CheckedArguments
}

export interface ResultCacheOptions {
  /** The gateway has no `auth`: callers without a name share results. */
  readonly isPublic: boolean
  readonly onWarning: (message: string, cause: unknown) => void
}

const MAX_BYTES = 262_144

/**
 * Stores results of tools with the setting `cacheTtlMs`, and returns them to the same caller. Results that are errors or
 * questions, and results with anything but text, are not stored. While the store is away, nothing is found or stored.
 */
export class ResultCache {
  readonly #records: Records
  readonly #options: ResultCacheOptions

  constructor(records: Records, options: ResultCacheOptions) {
    this.#records = records
    this.#options = options
  }

  async get(call: CachedCall): Promise<CallToolResult | undefined> {
    const key = cacheKeyOf(call, this.#options)
    if (key === undefined) return undefined
    try {
      const found = await this.#records.get(key)
      return isCallToolResult(found?.value) ? found.value : undefined
    } catch (error) {
      this.#options.onWarning('A cached result could not be read', error)
      return undefined
    }
  }

  /** Stores a result, if results of this kind are stored. Never rejects. */
  async put(call: CachedCall, result: CallToolResult): Promise<void> {
    const key = cacheKeyOf(call, this.#options)
    if (key === undefined || !isCacheable(result)) return
    const { content, structuredContent } = result
    // Without `_meta`, which names the run.
    const stored = { content, ...(structuredContent !== undefined && { structuredContent }) }
    if (Buffer.byteLength(JSON.stringify(stored)) > MAX_BYTES) return
    try {
      await this.#records.put(key, stored, { ttlMs: call.tool.cacheTtlMs })
    } catch (error) {
      this.#options.onWarning('A result could not be cached', error)
    }
  }
}

/** Returns the key under which the result of a call is stored. `undefined`: it is not stored. */
export function cacheKeyOf(
  { tool, principal, arguments: args }: CachedCall,
  { isPublic }: Pick<ResultCacheOptions, 'isPublic'>,
): string | undefined {
  if (tool.cacheTtlMs === undefined) return undefined
  if (principal.isAnonymous && !isPublic) return undefined
  if (args.input === undefined || args.resume !== undefined || args.files.length > 0) {
    return undefined
  }
  if (args.conversation !== undefined) return undefined // the answer depends on what was said before
  const { _meta, ...definition } = tool.definition
  const parts = [
    principal.isAnonymous,
    principal.id,
    // The answer of an agent may depend on them.
    principal.scopes.toSorted(),
    claimsOf(principal),
    tool.agent.id,
    tool.skill.id,
    definition, // after a change of the tool, earlier results are not used
    args.input,
    args.context ?? null,
  ]
  return `result/${hash('sha256', canonicalJson(parts))}`
}

/** Claims that each token of a caller has anew (RFC 7519, OpenID Connect Core). */
const OF_TOKEN: ReadonlySet<string> = new Set(['auth_time', 'exp', 'iat', 'jti', 'nbf', 'nonce'])

function claimsOf({ claims }: Principal): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(claims).filter(([name]) => !OF_TOKEN.has(name)))
}

function isCacheable({
  content,
  isError,
  structuredContent,
  _meta: meta,
}: CallToolResult): boolean {
  const isQuestion = isRecord(structuredContent) && structuredContent['status'] === 'needs_input'
  const isAnswer = isError !== true && meta?.['reason'] === undefined && !isQuestion
  return isAnswer && content.every(({ type }) => type === 'text')
}
