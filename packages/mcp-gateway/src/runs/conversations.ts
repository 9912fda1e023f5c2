import { hash, randomUUID } from 'node:crypto'

import { z } from 'zod'
import { RunFailure } from '../agents/agent.ts'
import { Sweeper } from '../internal/timers.ts'
import { listAll, type Versioned } from '../store/gateway-store.ts'
import { ownerOf, type Caller } from '../internal/principal.ts'
import { hashOf } from '../internal/text.ts'
import { busy, maxRunMsOf, type Execution, type RunStorage } from './order.ts'
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
  /** Given by the caller. */
  name: z.string().optional(),
  /** The run that used the conversation last. */
  runId: z.string(),
  phase: z.enum(['free', 'running', 'asking']),
  /** `running`: id of the lease of the process that runs it. Rows of earlier versions have none. */
  process: z.string().optional(),
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
/** Most conversations of one caller that have a name. */
const MAX_NAMED = 1000
const FULL = `There are ${MAX_NAMED} conversations already. Delete one with agent_conversations, or use the name of one.`
const NOBODY =
  'Callers without a name and a session cannot have conversations, because nothing shows that two calls are of the same caller. Call without `conversation`, or sign in.'
const BUSY = 'Another call of this conversation is running. Call again in a moment.'
const ONE_AT_A_TIME: SlotSettings = {
  maxConcurrent: Number.POSITIVE_INFINITY,
  maxConcurrentPerPrincipal: 1,
  maxQueued: Number.POSITIVE_INFINITY,
  busyText: BUSY,
}

/** A conversation with a name. */
export interface NamedConversation {
  readonly key: string
  /** Id of the agent. */
  readonly agent: string
  readonly name: string
  /** Milliseconds since 1970. */
  readonly expiresAt: number
}

/**
 * Conversations: one thread for each caller, scope and agent, and one for each name that the caller gives. The runs of a
 * conversation follow each other, in all processes that share the store.
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
    if (key === undefined) {
      if (execution.order.conversation === undefined) return undefined
      throw new RunFailure('invalid_arguments', NOBODY)
    }
    await this.#turns.take(key, signal)
    let release: (() => void) | undefined
    try {
      release = await this.#storage.lease.hold()
      const { row, version } = await this.#begin(key, execution)
      const leave = async (isAsking: boolean): Promise<void> => {
        const expiresAt = this.#storage.clock.now() + this.#storage.conversationTtlMs
        const left: Row = { ...row, phase: isAsking ? 'asking' : 'free', expiresAt }
        // If the store fails, the row stays: this process can begin the next call, and others when this run counts as dead.
        await this.#put(key, left, version).catch(() => {})
        release?.()
        this.#turns.release(key)
      }
      return { thread: row.thread, leave }
    } catch (error) {
      release?.()
      this.#turns.release(key)
      throw error
    }
  }

  /** Returns the named conversations of a caller. @throws GatewayError `UNAVAILABLE` */
  async list(caller: Caller): Promise<readonly NamedConversation[]> {
    const { clock, records } = this.#storage
    const owner = ownerOf(caller)
    const named: NamedConversation[] = []
    if (owner === undefined) return named
    for await (const { key, ...found } of listAll(records, `${PREFIX}${owner}:`)) {
      const { agentId: agent, expiresAt = 0, name } = rowIn(found) ?? {}
      if (agent === undefined || name === undefined || expiresAt <= clock.now()) continue
      named.push({ key, agent, name, expiresAt })
    }
    return named
  }

  /**
   * Deletes a conversation, and the thread of its agent.
   *
   * @returns `false` while a call of it runs
   * @throws GatewayError `UNAVAILABLE`
   */
  async delete({ key }: NamedConversation): Promise<boolean> {
    const { records } = this.#storage
    const found = await records.get(key)
    const row = rowIn(found)
    if (!found || !row) return true
    if (await this.#isRunning(row)) return false
    if (!(await records.delete(key, found.version))) return false
    await this.#forget(row)
    return true
  }

  close(): void {
    void this.#sweeper.close()
  }

  async #begin(
    key: string,
    execution: Execution,
  ): Promise<{ readonly row: Row; readonly version: string }> {
    const { clock, lease, records } = this.#storage
    const found = await records.get(PREFIX + key)
    const before = rowIn(found)
    const isLive = before !== undefined && before.expiresAt > clock.now()
    // A row of this process is left over from a store that failed: this call has the only turn here.
    const isOwn = before?.process === lease.id
    if (isLive && !isOwn && (await this.#isRunning(before))) throw busy(BUSY)
    const { order, tool, earlier } = execution
    const { conversation: name, runId } = order
    if (name !== undefined && !before) await this.#assertRoom(order)
    if (
      earlier?.resume !== undefined &&
      !(isLive && before.phase === 'asking' && before.runId === runId)
    ) {
      throw new RunFailure('expired', 'The conversation continued without this answer.')
    }
    // A run that died belongs to its conversation, so its thread is used again. An expired conversation has ended.
    const isKept = isLive || before?.phase === 'running'
    const thread = before !== undefined && isKept ? before.thread : randomUUID()
    const expiresAt = clock.now() + maxRunMsOf(tool, this.#storage) + DEAD_AFTER_MS
    const names = { agentId: tool.agent.id, ...(name !== undefined && { name }) }
    const row: Row = { ...names, thread, runId, phase: 'running', process: lease.id, expiresAt }
    const version = await this.#put(key, row, found?.version ?? null)
    if (version === undefined) throw busy(BUSY)
    if (before !== undefined && !isKept) await this.#forget(before)
    return { row, version }
  }

  /** Returns whether a process runs a call of the conversation. A process that died has no lease. */
  async #isRunning({ expiresAt, phase, process }: Row): Promise<boolean> {
    const { clock, lease } = this.#storage
    if (phase !== 'running' || expiresAt <= clock.now()) return false
    return process === undefined || lease.isAlive(process)
  }

  /** @throws RunFailure `invalid_arguments` if a caller has too many named conversations */
  async #assertRoom(caller: Caller): Promise<void> {
    const count = await this.#storage.records.count(`${PREFIX}${ownerOf(caller)}:`)
    if (count >= MAX_NAMED) throw new RunFailure('invalid_arguments', FULL)
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
  const owner = ownerOf(order)
  if (owner === undefined) return undefined
  const { conversation, principal, scope = '' } = order
  if (conversation !== undefined) return `${owner}:${hashOf([tool.agent.id, conversation])}`
  return hash('sha256', JSON.stringify([principal.id, scope, tool.agent.id]))
}
