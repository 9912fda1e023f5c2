import type { RunSettings } from '../options.ts'
import { createHash, randomUUID } from 'node:crypto'

import { isRecord } from '@x/internal'
import type { AgentSource } from '../agents/agent-source.ts'
import type { Clock } from '../internal/clock.ts'
import { listAll } from '../store/gateway-store.ts'
import type { Values } from '../store/gateway-store.ts'
import { Sweeper } from '../internal/sweeper.ts'
import type { RunOrder } from './run-ending.ts'
import { RunFailure } from '../agents/run-failure.ts'
import type { RunRequest } from './run-request.ts'
import { isScopeHandle } from './scope-handle.ts'
import { Turns } from './turns.ts'

export interface ConversationsOptions extends Pick<RunSettings, 'threadTtlMs' | 'sweepMs'> {
  readonly values: Values
  readonly clock: Clock
  readonly sourceOf: (agentId: string) => AgentSource | undefined
  /** The longest that a run may take, by which one is known to be dead. */
  readonly maxRunMsOf: (order: RunOrder) => number
}

/** A run's part in a conversation. */
export interface Turn {
  readonly thread: string
  /** The next may come. Never rejects. */
  leave(isAsking: boolean): Promise<void>
}

interface Row {
  readonly agentId: string
  readonly thread: string
  /** Which run used it last. */
  readonly runId: string
  readonly phase: 'free' | 'running' | 'asking'
  /** Milliseconds since 1970: of a run that goes on, when it must be dead; else, when all is forgotten. */
  readonly expiresAt: number
}

const PREFIX = 'conversation:'
const DEAD_AFTER_MS = 60_000
/** Rows outlive their end by this, so that some process gets to clean up after them. */
const SWEEP_GRACE_MS = 600_000
/** How long a call waits for the one before it. */
const MAX_WAIT_MS = 30_000

/**
 * Who goes on with which thread: one for each caller, scope and agent. Runs of one conversation follow each other,
 * in all processes that share the store.
 */
export class Conversations {
  readonly #options: ConversationsOptions
  readonly #turns: Turns
  readonly #sweeper: Sweeper

  constructor(options: ConversationsOptions) {
    this.#options = options
    this.#turns = new Turns(options.clock)
    const { clock, sweepMs: everyMs } = options
    this.#sweeper = new Sweeper({ clock, everyMs, sweep: () => this.#sweep() })
  }

  /**
   * @returns `undefined` for a caller of whom nothing tells that it is the same again
   * @throws RunFailure `busy`, `expired`; the reason of the signal
   */
  async enter(order: RunOrder, signal: AbortSignal): Promise<Turn | undefined> {
    const key = keyOf(order)
    if (key === undefined) return undefined
    const leaveTurn = await this.#turns.take(key, { signal, timeoutMs: MAX_WAIT_MS })
    if (leaveTurn === undefined) throw busy()
    try {
      const { row, version } = await this.#begin(key, order)
      const leave = async (isAsking: boolean): Promise<void> => {
        const expiresAt = this.#options.clock.now() + this.#options.threadTtlMs
        const left: Row = { ...row, phase: isAsking ? 'asking' : 'free', expiresAt }
        // If it cannot be said now, the next call comes when this run must be dead.
        await this.#put(key, left, version).catch(nothing)
        leaveTurn()
      }
      return { thread: row.thread, leave }
    } catch (error) {
      leaveTurn()
      throw error
    }
  }

  close(): void {
    void this.#sweeper.close()
  }

  async #begin(key: string, order: RunOrder): Promise<{ row: Row; version: string }> {
    const { values, clock, maxRunMsOf } = this.#options
    const found = await values.get(key)
    const before = rowFrom(found?.value)
    const isLive = before !== undefined && before.expiresAt > clock.now()
    if (isLive && before.phase === 'running') throw busy()
    const { runId, tool, resume } = order
    if (resume !== undefined && !(isLive && before.phase === 'asking' && before.runId === runId)) {
      throw new RunFailure('expired', 'The conversation went on without this answer.')
    }
    // A run that died was part of the conversation, and one that is over is not.
    const isKept = isLive || before?.phase === 'running'
    const thread = before !== undefined && isKept ? before.thread : randomUUID()
    const expiresAt = clock.now() + maxRunMsOf(order) + DEAD_AFTER_MS
    const row: Row = { agentId: tool.agent.id, thread, runId, phase: 'running', expiresAt }
    const version = await this.#put(key, row, found?.version ?? null)
    if (version === undefined) throw busy()
    if (before !== undefined && !isKept) await this.#forget(before)
    return { row, version }
  }

  #put(key: string, row: Row, ifVersion: string | null): Promise<string | undefined> {
    const { values, clock } = this.#options
    const ttlMs = row.expiresAt - clock.now() + SWEEP_GRACE_MS
    return values.put(key, row, { ttlMs, ifVersion })
  }

  async #forget({ agentId, thread }: Row): Promise<void> {
    await this.#options.sourceOf(agentId)?.forgetThread?.(agentId, thread)
  }

  async #sweep(): Promise<void> {
    const { values, clock, sourceOf } = this.#options
    for await (const { key, value, version } of listAll(values, PREFIX)) {
      if (this.#sweeper.isClosed) return
      const row = rowFrom(value)
      if (row === undefined || row.expiresAt > clock.now()) continue
      if (sourceOf(row.agentId) === undefined) continue
      if (await values.delete(key, version)) await this.#forget(row)
    }
  }
}

function keyOf({ tool, request }: RunOrder): string | undefined {
  const scope = scopeOf(request)
  if (scope === undefined) return undefined
  const parts = JSON.stringify([request.principal.id, scope, tool.agent.id])
  return `${PREFIX}${createHash('sha256').update(parts).digest('hex')}`
}

function scopeOf({ principal, scope, sessionScope }: RunRequest): string | undefined {
  const given = scope ?? sessionScope
  if (!principal.isAnonymous) return given ?? ''
  return isScopeHandle(given) ? given : undefined
}

function rowFrom(value: unknown): Row | undefined {
  return isRow(value) ? value : undefined
}

function isRow(value: unknown): value is Row {
  if (!isRecord(value)) return false
  const { phase, expiresAt } = value
  return (
    ['agentId', 'thread', 'runId'].every((key) => typeof value[key] === 'string') &&
    (phase === 'free' || phase === 'running' || phase === 'asking') &&
    typeof expiresAt === 'number'
  )
}

function busy(): RunFailure {
  const text = 'Another call of this conversation is under way. Call again in a moment.'
  return new RunFailure('busy', text, { retryAfterMs: 5000 })
}

function nothing(): void {}
