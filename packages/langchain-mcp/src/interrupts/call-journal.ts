import { BoundedMap, isRecord, within } from '@x/internal'
import type { McpToolOrigin } from '../base/tool-source.ts'
import { deleteItems, digest, threadNamespace, type GraphStore } from '../sessions/call-context.ts'
import { callOutcomeFrom, unknownOutcome, type CallOutcome } from './call-outcome.ts'
import { isFinishing, type CheckpointReader, type GraphPlace } from './langgraph.ts'

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

/** The record of one round in the store: it was about to be sent, or its outcome. */
interface StoredRecord extends RecordPlace {
  readonly state: 'sent' | 'done'
  readonly outcome?: CallOutcome
  /** Time of writing, in milliseconds since 1970. */
  readonly at: number
}

/** A record that this process wrote. */
interface WrittenRecord {
  readonly place: RecordPlace
  readonly saver: CheckpointReader
  readonly remove: () => Promise<unknown>
}

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
  readonly #written = new Set<WrittenRecord>()
  readonly #seenThreads: Map<string, true> = new BoundedMap(MAX_REMEMBERED)
  readonly #background = new Set<Promise<unknown>>()
  readonly #sweepMs: readonly number[]
  #timer: NodeJS.Timeout | undefined
  #sweeps = 0
  #agesCheckedAt = 0

  constructor({ sweepMs = SWEEP_MS }: { readonly sweepMs?: readonly number[] } = {}) {
    this.#sweepMs = sweepMs
  }

  /**
   * Sends a round that was not sent before. Two runs that continue one call at the same time share the
   * request.
   *
   * @throws the error of `send`; the error of the store, before anything is sent
   */
  async once(sending: Sending, send: () => Promise<CallOutcome>): Promise<CallOutcome> {
    const { place, number, origin } = sending
    const { thread, task, toolCallId, store } = place
    const key = JSON.stringify([thread, task, toolCallId, number])
    const known = this.#sent.get(key)
    if (known !== undefined && known !== 'sent') return known
    const wasSent = known === 'sent'
    if (wasSent && store === undefined) return unknownOutcome(origin)
    const outcome = store === undefined ? send() : this.#recorded(sending, { wasSent, store, send })
    this.#sent.set(key, outcome)
    try {
      if (mayRepeat(await outcome)) this.#sent.delete(key)
      else this.#sent.set(key, 'sent')
    } catch (error) {
      if (isUnexecuted(error)) this.#sent.delete(key)
      else this.#sent.set(key, 'sent')
      throw error
    }
    return outcome
  }

  /** Deletes the records of this process that checkpoints contain. Takes at most 2 s. Never rejects. */
  async settle(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    await within(Promise.allSettled([this.#sweep(), ...this.#background]), 2000, () => {})
  }

  /** Deletes all records of a thread. @throws the error of the store */
  async deleteThread(thread: string, store: GraphStore): Promise<void> {
    for (const key of this.#sent.keys()) if (isOfThread(key, thread)) this.#sent.delete(key)
    for (const record of this.#written) {
      if (record.place.thread === thread) this.#written.delete(record)
    }
    await deleteItems(store, threadNamespace('call', thread))
  }

  async #recorded(
    { origin, place, number }: Sending,
    { wasSent, store, send }: Recording,
  ): Promise<CallOutcome> {
    const namespace = threadNamespace('call', place.thread)
    const key = digest([place.task, place.toolCallId, number])
    const record = recordPlaceOf(place)
    const write = (entry: Pick<StoredRecord, 'state' | 'outcome'>): Promise<unknown> =>
      store.put(namespace, key, { ...record, ...entry, at: Date.now() }, false)
    const remove = (): Promise<unknown> => store.delete(namespace, key)
    const item = await store.get(namespace, key)
    if (isRecord(item?.value)) {
      this.#clean({ place, store, record, remove })
      return outcomeIn(item.value, origin)
    }
    if (wasSent) return unknownOutcome(origin)
    await write({ state: 'sent' })
    let outcome: CallOutcome
    try {
      outcome = await send()
    } catch (error) {
      if (isUnexecuted(error)) await remove()
      throw error
    }
    try {
      await (mayRepeat(outcome) ? remove() : write({ state: 'done', outcome }))
    } catch {
      // The checkpoint will contain the outcome. If the process ends before, the outcome counts as unknown.
    }
    if (!mayRepeat(outcome)) this.#clean({ place, store, record, remove })
    return outcome
  }

  /** Schedules the deletion of a record, and deletes records that other processes left in the thread. */
  #clean({ place, store, record, remove }: Cleaning): void {
    const { thread, saver } = place
    if (saver === undefined) return
    this.#written.add({ place: record, saver, remove })
    this.#sweeps = 0
    this.#schedule()
    if (!this.#seenThreads.has(thread)) {
      this.#seenThreads.set(thread, true)
      this.#inBackground(cleanThread(place, store))
    }
    if (Date.now() - this.#agesCheckedAt < AGE_CHECK_MS) return
    this.#agesCheckedAt = Date.now()
    this.#inBackground(cleanOld(store, saver))
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
    for (const record of this.#written) {
      const isContained = await check(record.place, record.saver).catch(() => false)
      const isTooMany = this.#written.size > MAX_REMEMBERED
      if (isContained || isTooMany) this.#written.delete(record)
      if (isContained) await record.remove().catch(() => {}) // the next process deletes it
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

interface Recording {
  readonly wasSent: boolean
  readonly store: GraphStore
  readonly send: () => Promise<CallOutcome>
}

interface Cleaning {
  readonly place: GraphPlace
  readonly store: GraphStore
  readonly record: RecordPlace
  readonly remove: () => Promise<unknown>
}

/** Deletes obsolete records of earlier runs in a thread. */
async function cleanThread({ thread, saver }: GraphPlace, store: GraphStore): Promise<void> {
  if (saver === undefined) return
  const items = (await store.search?.(threadNamespace('call', thread), { limit: PAGE })) ?? []
  const check = containedCheck()
  for (const { namespace, key, value } of items) {
    const place = recordPlaceFrom(value)
    if (place !== undefined && (await check(place, saver))) await store.delete(namespace, key)
  }
}

/**
 * Deletes obsolete records of all threads, and the results of old ones. It must stay known that a call was
 * sent.
 */
async function cleanOld(store: GraphStore, saver: CheckpointReader): Promise<void> {
  const filter = { state: 'done', at: { $lt: Date.now() - MAX_AGE_MS } }
  const items = (await store.search?.(['mcp', 'call'], { filter, limit: PAGE })) ?? []
  const check = containedCheck()
  for (const { namespace, key, value } of items) {
    const place = recordPlaceFrom(value)
    if (place === undefined || !isOld(value)) continue
    if (await check(place, saver)) await store.delete(namespace, key)
    else await store.put(namespace, key, { ...place, state: 'sent', at: Date.now() }, false)
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
    return (own?.pendingWrites ?? []).some((write) => isFinishing(write, task))
  }
}

/** Ids of checkpoints sort by time. */
function isNewer(stored: string | undefined, known: string | undefined): boolean {
  return stored !== undefined && known !== undefined && stored > known
}

function recordPlaceOf({ thread, task, graph, checkpoints }: GraphPlace): RecordPlace {
  return { thread, task, graph, root: checkpoints[''], checkpoint: checkpoints[graph] }
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

function outcomeIn(record: Readonly<Record<string, unknown>>, origin: McpToolOrigin): CallOutcome {
  // An unreadable record does not prove that nothing was sent.
  return record['state'] === 'done' ? callOutcomeFrom(record['outcome']) : unknownOutcome(origin)
}

function isOfThread(key: string, thread: string): boolean {
  return key.startsWith(`[${JSON.stringify(thread)},`)
}

/** Returns true if nothing was executed. A tool that reports an error (`isError`) was executed. */
function mayRepeat(outcome: CallOutcome): boolean {
  if (outcome.kind === 'authorization') return true
  return outcome.kind === 'failed' && outcome.outcome === 'not-executed'
}

function isUnexecuted(error: unknown): boolean {
  return isRecord(error) && error['outcome'] === 'not-executed'
}
