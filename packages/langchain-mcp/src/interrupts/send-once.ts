import { isRecord } from '../is-record.ts'
import type { McpToolOrigin } from '../tool-origin.ts'
import type { CallJournal } from './call-journal.ts'
import { unknownOutcome, type CallOutcome } from './call-outcome.ts'
import type { GraphPlace } from './graph-place.ts'

/** A round of a call that is about to be sent. */
export interface Sending {
  readonly origin: McpToolOrigin
  readonly place: GraphPlace
  /** Of the round. */
  readonly number: number
}

/** Sends a round that was not sent yet, as far as the store of the graph knows. Without a store, each time. */
export async function sendOnce(
  journal: CallJournal,
  { origin, place, number }: Sending,
  send: () => Promise<CallOutcome>,
): Promise<CallOutcome> {
  if (place.store === undefined) return send()
  const known = await journal.read(place, number)
  if (known?.state === 'done') return known.outcome
  if (known?.state === 'sent') return unknownOutcome(origin)
  await journal.write(place, number, { state: 'sent' })
  let outcome: CallOutcome
  try {
    outcome = await send()
  } catch (error) {
    if (isUnexecuted(error)) await journal.forget(place, number)
    throw error
  }
  try {
    if (mayRepeat(outcome)) await journal.forget(place, number)
    else await journal.write(place, number, { state: 'done', outcome })
  } catch {
    // The outcome is known here, and the checkpoint will have it; if not, it counts as unknown.
  }
  return outcome
}

/** Nothing was executed, or the tool itself said that it failed: whether to try again is the caller's to decide. */
function mayRepeat(outcome: CallOutcome): boolean {
  if (outcome.kind === 'authorization') return true
  if (outcome.kind === 'result') return outcome.result.isError === true
  return outcome.kind === 'failed' && outcome.outcome === 'not-executed'
}

function isUnexecuted(error: unknown): boolean {
  return isRecord(error) && error['outcome'] === 'not-executed'
}
