import { createHash } from 'node:crypto'

import { canonicalJson, isRecord } from '@x/internal'
import type { Principal } from '../internal/principal.ts'
import type { Records } from '../store/gateway-store.ts'
import type { CheckedArguments, PlannedTool } from './plan.ts'

/** Who calls what, and with what: all that a result may depend on. */
export interface CachedCall {
  readonly tool: Pick<PlannedTool, 'agent' | 'skill' | 'cache' | 'definition'>
  readonly principal: Principal
  readonly arguments: CheckedArguments
}

/** What is kept of a result: an answer in words and data. */
export interface CachedResult {
  readonly content: readonly unknown[]
  readonly structuredContent?: unknown
}

const MAX_BYTES = 262_144

/**
 * Results of tools for which it was configured, for whoever they were made. Never one that failed, that asks,
 * or that speaks of a file, since files belong to a run. A store that cannot be reached is an empty one.
 */
export class ResultCache {
  readonly #records: Records
  readonly #onWarning: (message: string, cause: unknown) => void

  constructor(
    records: Records,
    onWarning: (message: string, cause: unknown) => void = () => undefined,
  ) {
    this.#records = records
    this.#onWarning = onWarning
  }

  async get(call: CachedCall): Promise<CachedResult | undefined> {
    const key = cacheKeyOf(call)
    if (key === undefined) return undefined
    try {
      return cachedResultFrom((await this.#records.get(key))?.value)
    } catch (error) {
      this.#onWarning('A kept result could not be read', error)
      return undefined
    }
  }

  /** Keeps a result, if it is one to be kept. Never rejects. */
  async put(call: CachedCall, result: unknown): Promise<void> {
    const key = cacheKeyOf(call)
    const kept = key === undefined ? undefined : keptOf(result)
    if (key === undefined || kept === undefined) return
    try {
      await this.#records.put(key, kept, { ttlMs: call.tool.cache?.ttlMs })
    } catch (error) {
      this.#onWarning('A result could not be kept', error)
    }
  }
}

/** Where the result of a call is kept; `undefined`: nowhere. */
export function cacheKeyOf({ tool, principal, arguments: args }: CachedCall): string | undefined {
  const { cache } = tool
  if (cache === undefined || cache.ttlMs <= 0) return undefined
  if (principal.isAnonymous && cache.anonymous !== true) return undefined
  if (args.input === undefined || args.resume !== undefined || args.files.length > 0) {
    return undefined
  }
  const { _meta, ...definition } = tool.definition
  const parts = [
    principal.isAnonymous,
    principal.id,
    principal.scopes.toSorted(), // an agent may answer by them
    tool.agent.id,
    tool.skill.id,
    definition, // a tool that changed is another one
    args.input,
  ]
  return `result/${createHash('sha256').update(canonicalJson(parts)).digest('hex')}`
}

function keptOf(result: unknown): CachedResult | undefined {
  const kept = cachedResultFrom(result)
  if (kept === undefined || Buffer.byteLength(JSON.stringify(kept)) > MAX_BYTES) return undefined
  return kept
}

function cachedResultFrom(value: unknown): CachedResult | undefined {
  if (!isRecord(value) || (value['isError'] ?? false) !== false) return undefined
  const { content, structuredContent, resultType = 'complete', _meta: meta } = value
  if (resultType !== 'complete' || !Array.isArray(content)) return undefined
  if (!content.every((block) => isRecord(block) && block['type'] === 'text')) return undefined
  if (isRecord(meta) && meta['reason'] !== undefined) return undefined
  // A run that waits for its answer, told to a client that cannot be asked.
  if (isRecord(structuredContent) && structuredContent['status'] === 'needs_input') return undefined
  return { content, ...(structuredContent !== undefined && { structuredContent }) }
}
