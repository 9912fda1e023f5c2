import { hash, randomUUID } from 'node:crypto'

import { z } from 'zod'
import { RunFailure } from '../agents/agent.ts'
import { Sweeper } from '../internal/timers.ts'
import { listAll, type Versioned } from '../store/gateway-store.ts'
import { ownerOf } from '../internal/principal.ts'
import { busy, type Execution, type RunStorage } from './order.ts'
import { RunSlots, type SlotSettings } from './slots.ts'

export interface Turn {
  /** Id of the thread, a UUID. */
  readonly thread: string
  /** Lets the next run of the conversation begin. Never rejects. @param isAsking the run waits for an answer */
  leave(isAsking: boolean): Promise<void>
}

const StoredRow = z.object({
  agentId: z.string(),
  thread: z.string(),
  /** The run that used the conversation last. */
  runId: z.string(),
  phase: z.enum(['free', 'running', 'asking']),
  /** Milliseconds since 1970. `running`: the run has ended by then. Else: the conversation is deleted then. */
  expiresAt: z.number(),
})

type Row = Readonly<z.infer<typeof StoredRow>>

const PREFIX = 'conversation:'
/** A run that is late by this much has died with its process. */
const DEAD_AFTER_MS = 60_000
/** Rows are kept this long after they expire, so that a process can delete their threads. */
const SWEEP_GRACE_MS = 600_000
const SWEEP_MS = 60_000
/** Time for which a conversation is kept after its last call: people continue a talk on the next day. */
const THREAD_TTL_MS = 86_400_000
const BUSY = 'Another call of this conversation is running. Call again in a moment.'
const ONE_AT_A_TIME: SlotSettings = {
  maxConcurrent: Number.POSITIVE_INFINITY,
  maxConcurrentPerPrincipal: 1,
  maxQueued: Number.POSITIVE_INFINITY,
  busyText: BUSY,
}

/**
 * Conversations: one thread for each caller, scope and agent. The runs of a conversation follow each other, in all
 * processes that share the store.
 */
export class Conversations {
  readonly #storage: RunStorage
  /** One slot for each conversation: calls of this process follow each other. */
  readonly #turns: RunSlots
  readonly #sweeper: Sweeper

  constructor(storage: RunStorage) {
    const { clock } = storage
    this.#storage = storage
    this.#turns = new RunSlots(clock, ONE_AT_A_TIME)
    this.#sweeper = new Sweeper({ clock, everyMs: SWEEP_MS, sweep: () => this.#sweep() })
  }

  /**
   * Waits until the conversation of a call is free, and takes it.
   *
   * @returns `undefined` if nothing shows that two calls of the caller are of the same caller
   * @throws RunFailure `busy`, `expired`; the reason of the signal
   */
  async enter(execution: Execution, signal: AbortSignal): Promise<Turn | undefined> {
    const key = keyOf(execution)
    if (key === undefined) return undefined
    await this.#turns.take(key, signal)
    try {
      const { row, version } = await this.#begin(key, execution)
      const leave = async (isAsking: boolean): Promise<void> => {
        const expiresAt = this.#storage.clock.now() + THREAD_TTL_MS
        const left: Row = { ...row, phase: isAsking ? 'asking' : 'free', expiresAt }
        // If the store fails, the next call can begin when this run counts as dead.
        await this.#put(key, left, version).catch(() => {})
        this.#turns.release(key)
      }
      return { thread: row.thread, leave }
    } catch (error) {
      this.#turns.release(key)
      throw error
    }
  }

  close(): void {
    void this.#sweeper.close()
  }

  async #begin(
    key: string,
    execution: Execution,
  ): Promise<{ readonly row: Row; readonly version: string }> {
    const { clock, records } = this.#storage
    const found = await records.get(PREFIX + key)
    const before = rowIn(found)
    const isLive = before !== undefined && before.expiresAt > clock.now()
    if (isLive && before.phase === 'running') throw busy(BUSY)
    const { order, tool, earlier } = execution
    const { runId } = order
    if (
      earlier?.resume !== undefined &&
      !(isLive && before.phase === 'asking' && before.runId === runId)
    ) {
      throw new RunFailure('expired', 'The conversation continued without this answer.')
    }
    // A run that died belongs to its conversation, so its thread is used again. An expired conversation has ended.
    const isKept = isLive || before?.phase === 'running'
    const thread = before !== undefined && isKept ? before.thread : randomUUID()
    const expiresAt = clock.now() + this.#storage.maxRunMs(tool) + DEAD_AFTER_MS
    const row: Row = { agentId: tool.agent.id, thread, runId, phase: 'running', expiresAt }
    const version = await this.#put(key, row, found?.version ?? null)
    if (version === undefined) throw busy(BUSY)
    if (before !== undefined && !isKept) await this.#forget(before)
    return { row, version }
  }

  /** @returns the new version; `undefined` if another process changed the row in the meantime */
  #put(key: string, row: Row, ifVersion: string | null): Promise<string | undefined> {
    const { clock, records } = this.#storage
    const ttlMs = row.expiresAt - clock.now() + SWEEP_GRACE_MS
    return records.put(PREFIX + key, row, { ttlMs, ifVersion })
  }

  async #forget({ agentId, thread }: Row): Promise<void> {
    await this.#storage.agents.sourceOf(agentId)?.forgetThread?.(agentId, thread)
  }

  /** Deletes the conversations that have expired, of agents that are there. */
  async #sweep(): Promise<void> {
    const { agents, clock, records } = this.#storage
    for await (const { key, ...found } of listAll(records, PREFIX)) {
      if (this.#sweeper.isClosed) return
      const row = rowIn(found)
      if (row === undefined || row.expiresAt > clock.now() || !agents.sourceOf(row.agentId))
        continue
      if (await records.delete(key, found.version)) await this.#forget(row)
    }
  }
}

/** @returns `undefined` for a row that cannot be read */
function rowIn(found: Versioned | undefined): Row | undefined {
  return StoredRow.safeParse(found?.value).data
}

function keyOf({ tool, order }: Execution): string | undefined {
  if (ownerOf(order) === undefined) return undefined
  const { principal, scope = '' } = order
  return hash('sha256', JSON.stringify([principal.id, scope, tool.agent.id]))
}
