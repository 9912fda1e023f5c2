import { createHash } from 'node:crypto'
import { isRecord } from '../is-record.ts'
import { callOutcomeFrom, type CallOutcome } from './call-outcome.ts'
import type { GraphPlace } from './graph-place.ts'

/** What is known of one round: that it was about to be sent, or what became of it. */
export type JournalEntry =
  | { readonly state: 'sent' }
  | { readonly state: 'done'; readonly outcome: CallOutcome }

/** Rounds of this many steps ago are no longer executed again, whatever happens. */
const KEPT_STEPS = 8

interface Written {
  readonly step: number
  readonly remove: () => Promise<unknown>
}

/**
 * Writes down in the graph's own store that a call is about to be sent, and what became of it: a process
 * that is killed in between leaves nothing else behind, and LangGraph then executes the task again. Does
 * nothing where the graph has no store.
 */
export class CallJournal {
  /** What this process has written, by thread and graph. */
  readonly #written = new Map<string, Written[]>()

  async read(place: GraphPlace, round: number): Promise<JournalEntry | undefined> {
    const { namespace, key } = itemOf(place, round)
    const item = await place.store?.get(namespace, key)
    return item === undefined || item === null ? undefined : entryFrom(item.value)
  }

  async write(place: GraphPlace, round: number, entry: JournalEntry): Promise<void> {
    const { store, step } = place
    if (store === undefined) return
    const { namespace, key } = itemOf(place, round)
    await store.put(namespace, key, { ...entry }, false)
    if (entry.state === 'sent') {
      this.#remember(place, { step, remove: () => store.delete(namespace, key) })
    }
  }

  /** It was certainly not executed, or a repetition is the caller's to decide. */
  async forget(place: GraphPlace, round: number): Promise<void> {
    const { namespace, key } = itemOf(place, round)
    await place.store?.delete(namespace, key)
  }

  #remember({ thread, graph, step }: GraphPlace, written: Written): void {
    const key = JSON.stringify([thread, graph])
    const all = [...(this.#written.get(key) ?? []), written]
    const old = all.filter((one) => one.step < step - KEPT_STEPS)
    this.#written.delete(key) // so that the map is in the order of use
    this.#written.set(key, old.length === 0 ? all : all.filter((one) => !old.includes(one)))
    const [oldest] = this.#written.keys()
    if (this.#written.size > 1000 && oldest !== undefined) this.#written.delete(oldest)
    for (const { remove } of old) remove().catch(() => {}) // it stays, and does no harm
  }
}

/** Digests: a store may refuse dots in a namespace. */
function itemOf(
  { thread, task, toolCallId }: GraphPlace,
  round: number,
): { readonly namespace: string[]; readonly key: string } {
  return { namespace: ['mcp', 'call', digest([thread])], key: digest([task, toolCallId, round]) }
}

function digest(parts: readonly (string | number)[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32)
}

function entryFrom(value: unknown): JournalEntry {
  // What cannot be read is no proof that nothing was sent.
  if (!isRecord(value) || value['state'] !== 'done') return { state: 'sent' }
  return { state: 'done', outcome: callOutcomeFrom(value['outcome']) }
}
