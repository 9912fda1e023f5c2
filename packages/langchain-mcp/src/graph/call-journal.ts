import { BoundedMap, isRecord, within } from '@x/internal'
import { processWarnings, type ToolLog } from '../log.ts'
import { serverTitle, type McpToolOrigin } from '../tool-source.ts'
import { deleteItems, digest, threadNamespace, type GraphStore } from './call-context.ts'
import { callOutcomeFrom, unknownOutcome, type CallOutcome } from './call-outcome.ts'
import { isElicitationInterrupt, isTaskInterrupt } from './interrupt-value.ts'
import { pendingTasks, startTimeOf, type GraphPlace } from './graph-place.ts'

/** A round of a call that is about to be sent. */
interface Sending {
  readonly origin: McpToolOrigin
  readonly place: GraphPlace
  /** Number of the round. */
  readonly number: number
}

/** Place of the record of one round in the store: it was about to be sent (`sent`), or its outcome (`done`). */
interface RoundRecord {
  readonly store: GraphStore
  readonly namespace: string[]
  readonly key: string
}

/** Sends a round. `sentAt`: when an earlier process sent it, in milliseconds since 1970. */
type Send = (sentAt?: number) => Promise<CallOutcome>

/** Limit of remembered rounds in one process. */
const MAX_REMEMBERED = 10_000
/** A thread that a killed process left is continued within this time, or the outcome of its call is unknown. */
const RECORD_TTL_MS = 30 * 24 * 3_600_000
/** Limit of one access to the store, in milliseconds. */
const STORE_MS = 2000
/** Time between two searches for expired records. */
const CLEAN_MS = 3_600_000

/**
 * Sends each round of a call only once. It remembers rounds in this process, and in the store of the graph
 * if there is one. After a process is killed, LangGraph executes the task again, and only the store knows
 * that the round was sent. Records have a time to live.
 *
 * A store that fails or hangs fails no call. Before the request, the call is made without a record, with one warning: a
 * process that is killed meanwhile may repeat it. After the request, its outcome counts, whatever the store does.
 */
export class CallJournal {
  /** Rounds of this process: the outcome while a request is open, then only that it was sent. */
  readonly #sent: Map<string, Promise<CallOutcome> | 'sent'> = new BoundedMap(MAX_REMEMBERED)
  readonly #log: ToolLog
  #hasWarned = false
  #cleanedAt = 0
  #cleaning: Promise<void> = Promise.resolve()

  constructor(log: ToolLog = processWarnings) {
    this.#log = log
  }

  /**
   * Sends a round that was not sent before. Two runs that continue one call at the same time share the
   * request.
   *
   * @throws the error of `send`
   */
  async once(sending: Sending, send: Send): Promise<CallOutcome> {
    const key = roundKey(sending)
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
    if (this.#sent.has(roundKey({ place, number: 0 }))) return true
    const record = recordOf({ place, number: 0 })
    // If the store fails, the journal warns when the call is sent.
    const read = record && (await inTime(() => record.store.get(record.namespace, record.key)))
    if (read !== undefined && 'result' in read && read.result != null) return true
    const { interrupts = [] } = (await pendingTasks(place)).get(place.task) ?? {}
    return interrupts.some(({ value }) => isTaskInterrupt(value) || isElicitationInterrupt(value))
  }

  /** Waits until expired records are deleted, for at most 2 s. Never rejects. */
  async settle(): Promise<void> {
    await within(this.#cleaning, 2000, () => {})
  }

  /** Deletes all records of a thread. @throws the error of the store */
  async deleteThread(thread: string, store: GraphStore): Promise<void> {
    const start = `[${JSON.stringify(thread)},`
    for (const key of this.#sent.keys()) if (key.startsWith(start)) this.#sent.delete(key)
    await deleteItems(store, threadNamespace('call', thread))
  }

  async #recorded(sending: Sending, send: Send): Promise<CallOutcome> {
    const record = recordOf(sending)
    if (record === undefined) return send()
    const { store, namespace, key } = record
    this.#clean(store)
    const read = await inTime(() => storedRound(record, sending.origin))
    if ('error' in read) {
      this.#warn(sending, read.error)
      return send()
    }
    const stored = read.result
    if (stored?.outcome !== undefined) return stored.outcome
    // An earlier process may have sent the call, and its record has expired.
    const isOlderThanRecords = startTimeOf(sending.place) < Date.now() - RECORD_TTL_MS
    if (stored === undefined && isOlderThanRecords) return unknownOutcome(sending.origin)
    const remove = () => inTime(() => store.delete(namespace, key))
    const write = (entry: Record<string, unknown>) =>
      inTime(() =>
        store.put(namespace, key, { ...entry, expiresAt: Date.now() + RECORD_TTL_MS }, false),
      )
    const sent = stored ?? (await write({ state: 'sent', sentAt: Date.now() }))
    if ('error' in sent) this.#warn(sending, sent.error)
    let outcome: CallOutcome
    try {
      outcome = await send(stored?.sentAt)
    } catch (error) {
      if (isUnexecuted(error)) await remove()
      throw error
    }
    // If this fails, the checkpoint will contain the outcome. If the process ends before, the outcome counts as unknown.
    await (mayRepeat(outcome) ? remove() : write({ state: 'done', outcome }))
    return outcome
  }

  /** Returns the stored outcome of a round that this process has sent before. */
  async #repeated(sending: Sending): Promise<CallOutcome> {
    const record = recordOf(sending)
    const read = record && (await inTime(() => storedRound(record, sending.origin)))
    const stored = read !== undefined && 'result' in read ? read.result : undefined
    return stored?.outcome ?? unknownOutcome(sending.origin)
  }

  #warn({ origin }: Sending, error: unknown): void {
    if (this.#hasWarned) return
    this.#hasWarned = true
    const server = serverTitle(origin.server)
    const reason = error instanceof Error ? error.message : String(error)
    this.#log({
      level: 'warning',
      code: 'CALL_NOT_RECORDED',
      message: `The store of the graph did not record a call of MCP server "${server}" (${reason}). Calls go on, but if the process is killed during one, the next process may repeat it`,
      server,
      tool: origin.toolName,
    })
  }

  /** Deletes expired records of all threads, at most once an hour. After a failure, another process does it. */
  #clean(store: GraphStore): void {
    if (Date.now() - this.#cleanedAt < CLEAN_MS) return
    this.#cleanedAt = Date.now()
    this.#cleaning = deleteItems(store, ['mcp', 'call'], this.#cleanedAt).catch(() => {})
  }
}

/** A round that was sent before: its outcome, or the time when it was sent. */
type StoredRound =
  | { readonly outcome: CallOutcome; readonly sentAt?: undefined }
  | { readonly sentAt: number; readonly outcome?: undefined }

/** Returns the result of an access to the store, or why there is none. */
async function inTime<Result>(
  access: () => Promise<Result>,
): Promise<{ readonly result: Result } | { readonly error: unknown }> {
  try {
    const late = (): never => {
      throw new Error(`no answer within ${STORE_MS} ms`)
    }
    return { result: await within(access(), STORE_MS, late) }
  } catch (error) {
    return { error }
  }
}

/** Returns the outcome of a round that has been sent; if there is none, the time when it was sent. */
async function storedRound(
  { store, namespace, key }: RoundRecord,
  origin: McpToolOrigin,
): Promise<StoredRound | undefined> {
  const value = (await store.get(namespace, key))?.value
  if (!isRecord(value)) return undefined
  const { state, outcome, sentAt } = value
  if (state === 'done') return { outcome: callOutcomeFrom(outcome) }
  // An unreadable record does not prove that nothing was sent.
  return typeof sentAt === 'number' ? { sentAt } : { outcome: unknownOutcome(origin) }
}

function roundKey({ place, number }: Pick<Sending, 'place' | 'number'>): string {
  return `${place.key}${number}`
}

/** Returns undefined if the graph has no store. */
function recordOf({ place, number }: Pick<Sending, 'place' | 'number'>): RoundRecord | undefined {
  const { store, thread, task, call } = place
  if (store === undefined) return undefined
  return { store, namespace: threadNamespace('call', thread), key: digest([task, call, number]) }
}

/** Returns true if nothing was executed. A tool that reports an error (`isError`) was executed. */
function mayRepeat(outcome: CallOutcome): boolean {
  if (outcome.kind === 'authorization') return true
  return outcome.kind === 'failed' && outcome.outcome === 'not-executed'
}

function isUnexecuted(error: unknown): boolean {
  return isRecord(error) && error['outcome'] === 'not-executed'
}
