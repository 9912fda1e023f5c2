import { createRequestStateCodec } from '@modelcontextprotocol/server'
import type { RequestStateCodec, ServerContext } from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import { isRunId } from '../run-id.ts'

/** Which round of which run is answered. Ids only: clients can read it, but not change it. */
export interface RequestState {
  readonly runId: string
  /** From 1. Each is answered once. */
  readonly round: number
  readonly tool: string
  /** Hash of the arguments: a continued call is the same call. */
  readonly args: string
}

export interface RequestStateOptions {
  /** At least 32 bytes, the same in all processes. */
  readonly key: Uint8Array | string
  /** How long runs wait. @default 3_600_000 */
  readonly ttlMs?: number | undefined
  /** Who is calling: a state is of use to nobody else. */
  readonly principalOf: (context: ServerContext) => string
}

/** Seals states and opens them. `verify` goes into `ServerOptions.requestState`: what it refuses becomes -32602. */
export function createRequestStates(options: RequestStateOptions): RequestStateCodec<RequestState> {
  const { key, ttlMs = 3_600_000, principalOf } = options
  return createRequestStateCodec<RequestState>({
    key,
    ttlSeconds: Math.ceil(ttlMs / 1000),
    bind: (context) => `${context.mcpReq.method}\0${principalOf(context)}`,
  })
}

/** What a call says that it continues. A `resume` argument names run and round, and has the key to them. */
export interface ResumeClaim {
  readonly runId: string
  readonly round: number
  readonly tool?: string | undefined
  readonly args?: string | undefined
  /** Of a `resume` argument. */
  readonly key?: string | undefined
}

/**
 * How a `resume` argument names a round: an answer that is given twice is no answer to the next question. Ids of runs
 * stand in logs, and callers without a name are all one: whoever answers has to have read the question.
 */
export function handleOf({
  runId,
  round,
  key,
}: Required<Pick<ResumeClaim, 'runId' | 'round' | 'key'>>): string {
  return `${runId}.${round}.${key}`
}

/** @returns `undefined` for anything that is neither a state nor `{ run }` with such a handle */
export function resumeClaimFrom(value: unknown): ResumeClaim | undefined {
  if (!isRecord(value)) return undefined
  const { runId, round, tool, args, run } = value
  if (isRunId(runId) && typeof round === 'number' && typeof args === 'string') {
    return { runId, round, args, tool: typeof tool === 'string' ? tool : undefined }
  }
  const [name, count = '', key] = typeof run === 'string' ? run.split('.') : []
  return isRunId(name) && key !== undefined && /^[1-9]\d{0,5}$/.test(count)
    ? { runId: name, round: Number(count), key }
    : undefined
}
