import { BoundedMap, isRecord, within } from '@x/internal'
import type { McpToolOrigin } from '../base/tool-source.ts'
import { deleteItems, digest, threadNamespace, type GraphStore } from '../sessions/call-context.ts'
import { callOutcomeFrom, unknownOutcome, type CallOutcome } from './call-outcome.ts'
import { isElicitationInterrupt, isTaskInterrupt } from './interrupt-value.ts'
import { tasksIn, type CheckpointReader, type GraphPlace } from './langgraph.ts'

/** A round of a call that is about to be sent. */
interface Sending {
  readonly origin: McpToolOrigin
  readonly place: GraphPlace
  /** Number of the round. */
  readonly number: number
}

/**
 * The place of a round's outcome in LangGraph's checkpoints. A record is obsolete when a checkpoint has the
 * outcome.
 */
interface RecordPlace {
  readonly thread: string
  readonly task: string
  readonly graph: string
  /** Ids of the checkpoints from which the task was started: of the root graph, and of its own graph. */
  readonly root: string | undefined
  readonly checkpoint: string | undefined
}

/** The record of one round in the store: it was about to be sent (`sent`), or its outcome (`done`). */
interface RoundRecord {
  readonly store: GraphStore
  readonly namespace: string[]
  readonly key: string
  readonly place: RecordPlace
}

/** Sends a round. `sentAt`: when an earlier process sent it, in milliseconds since 1970. */
type Send = (sentAt?: number) => Promise<CallOutcome>

/** Limit of remembered rounds and threads in one process. */
const MAX_REMEMBERED = 10_000
/**
 * Delays until this process checks its records again. After the last one, the next run of the thread does
 * it.
 */
const SWEEP_MS = [5_000, 60_000, 600_000]
/** Age at which a record loses its result, if no checkpoint is known to contain it. */
const MAX_AGE_MS = 24 * 3_600_000
const AGE_CHECK_MS = 3_600_000
const PAGE = 100

/**
 * Sends each round of a call only once. It remembers rounds in this process, and in the store of the graph
 * if there is one. After a process is killed, LangGraph executes the task again, and only the store knows
 * that the round was sent.
 *
 * A record is deleted when a checkpoint contains the outcome: by this process after a few seconds or at its
 * end, or by the next process that makes a call in the thread.
 */
export class CallJournal {
  /** Rounds of this process: the outcome while a request is open, then only that it was sent. */
  readonly #sent: Map<string, Promise<CallOutcome> | 'sent'> = new BoundedMap(MAX_REMEMBERED)
  /** Records that this process wrote, with the checkpointers of their graphs. */
  readonly #written = new Map<RoundRecord, CheckpointReader>()
  readonly #seenThreads: Map<string, true> = new BoundedMap(MAX_REMEMBERED)
  readonly #background = new Set<Promise<unknown>>()
  readonly #sweepMs: readonly number[]
  #timer: NodeJS.Timeout | undefined
  #sweeps = 0
  #agesCheckedAt = 0

  constructor(sweepMs: readonly number[] = SWEEP_MS) {
    this.#sweepMs = sweepMs
  }

  /**
   * Sends a round that was not sent before. Two runs that continue one call at the same time share the
   * request.
   *
   * @throws the error of `send`; the error of the store, before anything is sent
   */
  async once(sending: Sending, send: Send): Promise<CallOutcome> {
    const { thread, task, call } = sending.place
    const key = JSON.stringify([thread, task, call, sending.number])
    const known = this.#sent.get(key)
    if (known !== undefined && known !== 'sent') return known
    const outcome = known === 'sent' ? this.#repeated(sending) : this.#recorded(sending, send)
    this.#sent.set(key, outcome)
    let isExecuted = true
    try {
      isExecuted = !mayRepeat(await outcome)
      return await outcome
    } catch (error) {
      isExecuted = !isUnexecuted(error)
      throw error
    } finally {
      if (isExecuted) this.#sent.set(key, 'sent')
      else this.#sent.delete(key)
    }
  }

  /** Returns true if a call was sent when its task was executed before. */
  async wasSent(place: GraphPlace): Promise<boolean> {
    const { thread, task, call, graph, checkpoints, saver } = place
    if (this.#sent.has(JSON.stringify([thread, task, call, 0]))) return true
    const record = recordOf({ place, number: 0 })
    if (record && (await record.store.get(record.namespace, record.key)) != null) return true
    const tuple = await saver?.getTuple({
      configurable: { thread_id: thread, checkpoint_ns: graph, checkpoint_id: checkpoints[graph] },
    })
    const interrupt = tasksIn(tuple?.pendingWrites).get(task)?.interrupt
    return isTaskInterrupt(interrupt) || isElicitationInterrupt(interrupt)
  }

  /** Deletes the records of this process that checkpoints contain. Takes at most 2 s. Never rejects. */
  async settle(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    await within(Promise.allSettled([this.#sweep(), ...this.#background]), 2000, () => {})
  }

  /** Deletes all records of a thread. @throws the error of the store */
  async deleteThread(thread: string, store: GraphStore): Promise<void> {
    const start = `[${JSON.stringify(thread)},`
    for (const key of this.#sent.keys()) if (key.startsWith(start)) this.#sent.delete(key)
    for (const record of this.#written.keys()) {
      if (record.place.thread === thread) this.#written.delete(record)
    }
    await deleteItems(store, threadNamespace('call', thread))
  }

  /** Returns the stored outcome of a round that this process has sent before. */
  async #repeated(sending: Sending): Promise<CallOutcome> {
    const record = recordOf(sending)
    const stored = record && (await this.#stored(record, sending))
    return stored?.outcome ?? unknownOutcome(sending.origin)
  }

  /** Returns the outcome of a round that has been sent; if there is none, the time when it was sent. */
  async #stored(
    record: RoundRecord,
    { origin, place: { saver } }: Sending,
  ): Promise<StoredRound | undefined> {
    const { store, namespace, key } = record
    const value = (await store.get(namespace, key))?.value
    if (!isRecord(value)) return undefined
    this.#clean(record, saver)
    const { state, outcome, sentAt } = value
    if (state === 'done') return { outcome: callOutcomeFrom(outcome) }
    // An unreadable record does not prove that nothing was sent.
    return typeof sentAt === 'number' ? { sentAt } : { outcome: unknownOutcome(origin) }
  }

  async #recorded(sending: Sending, send: Send): Promise<CallOutcome> {
    const record = recordOf(sending)
    if (record === undefined) return send()
    const stored = await this.#stored(record, sending)
    if (stored?.outcome !== undefined) return stored.outcome
    const { store, namespace, key, place } = record
    const remove = (): Promise<unknown> => store.delete(namespace, key)
    const write = (entry: Record<string, unknown>): Promise<unknown> =>
      store.put(namespace, key, { ...place, ...entry, at: Date.now() }, false)
    if (stored === undefined) await write({ state: 'sent', sentAt: Date.now() })
    let outcome: CallOutcome
    try {
      outcome = await send(stored?.sentAt)
    } catch (error) {
      if (isUnexecuted(error)) await remove()
      throw error
    }
    try {
      await (mayRepeat(outcome) ? remove() : write({ state: 'done', outcome }))
    } catch {
      // The checkpoint will contain the outcome. If the process ends before, the outcome counts as unknown.
    }
    if (!mayRepeat(outcome)) this.#clean(record, sending.place.saver)
    return outcome
  }

  /** Schedules the deletion of a record, and deletes records that other processes left. */
  #clean(record: RoundRecord, saver: CheckpointReader | undefined): void {
    if (saver === undefined) return
    this.#written.set(record, saver)
    this.#sweeps = 0
    this.#schedule()
    const { store, namespace, place } = record
    if (!this.#seenThreads.has(place.thread)) {
      this.#seenThreads.set(place.thread, true)
      this.#inBackground(cleanStore(store, saver, { namespace }))
    }
    if (Date.now() - this.#agesCheckedAt < AGE_CHECK_MS) return
    this.#agesCheckedAt = Date.now()
    const filter = { state: 'done', at: { $lt: Date.now() - MAX_AGE_MS } }
    this.#inBackground(cleanStore(store, saver, { namespace: ['mcp', 'call'], filter }))
  }

  #schedule(): void {
    const delay = this.#sweepMs[this.#sweeps]
    if (this.#timer !== undefined || delay === undefined || this.#written.size === 0) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#sweeps += 1
      this.#inBackground(this.#sweep().then(() => this.#schedule()))
    }, delay)
    this.#timer.unref()
  }

  async #sweep(): Promise<void> {
    const check = containedCheck()
    for (const [record, saver] of this.#written) {
      const isContained = await check(record.place, saver).catch(() => false)
      const isTooMany = this.#written.size > MAX_REMEMBERED
      if (isContained || isTooMany) this.#written.delete(record)
      // If this fails, the next process deletes it.
      if (isContained) await record.store.delete(record.namespace, record.key).catch(() => {})
    }
  }

  /** If the store or the checkpointer fails, the next process deletes the records. */
  #inBackground(work: Promise<unknown>): void {
    const done = work
      .catch(() => {})
      .finally(() => {
        this.#background.delete(done)
      })
    this.#background.add(done)
  }
}

/** A round that was sent before: its outcome, or the time when it was sent. */
type StoredRound =
  | { readonly outcome: CallOutcome; readonly sentAt?: undefined }
  | { readonly sentAt: number; readonly outcome?: undefined }

/** Returns undefined if the graph has no store. */
function recordOf({ place, number }: Pick<Sending, 'place' | 'number'>): RoundRecord | undefined {
  const { store, thread, task, call, graph, checkpoints } = place
  if (store === undefined) return undefined
  return {
    store,
    namespace: threadNamespace('call', thread),
    key: digest([task, call, number]),
    place: { thread, task, graph, root: checkpoints[''], checkpoint: checkpoints[graph] },
  }
}

/**
 * Deletes obsolete records of earlier processes, and the results of old records. It must stay known that a
 * call was sent.
 */
async function cleanStore(
  store: GraphStore,
  saver: CheckpointReader,
  {
    namespace,
    ...options
  }: { readonly namespace: string[]; readonly filter?: Record<string, unknown> },
): Promise<void> {
  const items = (await store.search?.(namespace, { ...options, limit: PAGE })) ?? []
  const check = containedCheck()
  for (const item of items) {
    const { value } = item
    const place = recordPlaceFrom(value)
    if (place === undefined) continue
    if (await check(place, saver)) await store.delete(item.namespace, item.key)
    else if (isOld(value)) {
      const entry = { ...place, state: 'sent', at: Date.now() }
      await store.put(item.namespace, item.key, entry, false)
    }
  }
}

/**
 * Returns a function that checks if a stored checkpoint contains the outcome of a round: the graph has
 * continued, or its task is finished. Reads each checkpoint once.
 */
function containedCheck(): (place: RecordPlace, saver: CheckpointReader) => Promise<boolean> {
  const read = new Map<string, ReturnType<CheckpointReader['getTuple']>>()
  const latest = (
    saver: CheckpointReader,
    [thread, graph]: readonly [string, string],
  ): ReturnType<CheckpointReader['getTuple']> => {
    const key = JSON.stringify([thread, graph])
    const tuple =
      read.get(key) ?? saver.getTuple({ configurable: { thread_id: thread, checkpoint_ns: graph } })
    read.set(key, tuple)
    return tuple
  }
  return async ({ thread, task, graph, root, checkpoint }, saver) => {
    const outer = await latest(saver, [thread, ''])
    if (isNewer(outer?.checkpoint?.id, root)) return true
    const own = graph === '' ? outer : await latest(saver, [thread, graph])
    if (isNewer(own?.checkpoint?.id, checkpoint)) return true
    if (own?.checkpoint?.id !== checkpoint) return false
    return tasksIn(own?.pendingWrites).get(task)?.isFinished === true
  }
}

/** Ids of checkpoints sort by time. */
function isNewer(stored: string | undefined, known: string | undefined): boolean {
  return stored !== undefined && known !== undefined && stored > known
}

function recordPlaceFrom(value: unknown): RecordPlace | undefined {
  if (!isRecord(value)) return undefined
  const { thread, task, graph, root, checkpoint } = value
  if (typeof thread !== 'string' || typeof task !== 'string' || typeof graph !== 'string') {
    return undefined
  }
  return { thread, task, graph, root: textOrNone(root), checkpoint: textOrNone(checkpoint) }
}

function textOrNone(id: unknown): string | undefined {
  return typeof id === 'string' ? id : undefined
}

/** Checks the filter again, because a store may ignore it. */
function isOld(value: unknown): boolean {
  if (!isRecord(value) || value['state'] !== 'done') return false
  return typeof value['at'] === 'number' && value['at'] < Date.now() - MAX_AGE_MS
}

/** Returns true if nothing was executed. A tool that reports an error (`isError`) was executed. */
function mayRepeat(outcome: CallOutcome): boolean {
  if (outcome.kind === 'authorization') return true
  return outcome.kind === 'failed' && outcome.outcome === 'not-executed'
}

function isUnexecuted(error: unknown): boolean {
  return isRecord(error) && error['outcome'] === 'not-executed'
}
