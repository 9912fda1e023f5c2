import { hash, randomUUID } from 'node:crypto'

import { z } from 'zod'
import { RunFailure } from '../agents/agent.ts'
import { busy, scopeOf, type Execution, type RunStorage } from './order.ts'
import { DEAD_AFTER_MS, RunRows, type Versioned } from './run-rows.ts'
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
  readonly #rows: RunRows<Row>

  constructor(storage: RunStorage) {
    this.#storage = storage
    this.#turns = new RunSlots(storage.clock, ONE_AT_A_TIME)
    this.#rows = new RunRows(storage, {
      prefix: PREFIX,
      schema: StoredRow,
      onExpired: async (key, { row, version }) => {
        if (await this.#rows.delete(key, version)) await this.#forget(row)
      },
    })
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
        await this.#rows.put(key, left, version).catch(() => {})
        this.#turns.release(key)
      }
      return { thread: row.thread, leave }
    } catch (error) {
      this.#turns.release(key)
      throw error
    }
  }

  close(): void {
    this.#rows.close()
  }

  async #begin(key: string, execution: Execution): Promise<Versioned<Row>> {
    const { clock } = this.#storage
    const { row: before, version: ifVersion } = await this.#rows.get(key)
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
    const version = await this.#rows.put(key, row, ifVersion)
    if (version === undefined) throw busy(BUSY)
    if (before !== undefined && !isKept) await this.#forget(before)
    return { row, version }
  }

  async #forget({ agentId, thread }: Row): Promise<void> {
    await this.#storage.agents.sourceOf(agentId)?.forgetThread?.(agentId, thread)
  }
}

function keyOf({ tool, order }: Execution): string | undefined {
  const scope = scopeOf(order)
  if (scope === undefined) return undefined
  const parts = JSON.stringify([order.principal.id, scope ?? '', tool.agent.id])
  return hash('sha256', parts)
}
