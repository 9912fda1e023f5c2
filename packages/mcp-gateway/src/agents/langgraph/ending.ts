import { isRecord } from '@x/internal'
import { shortened } from '../../internal/text.ts'
import type { AgentUpdate } from '../agent.ts'
import { filesSoFar, outputOf } from './answer.ts'
import { messageFrom } from './content.ts'
import type { GraphOutput } from './definition.ts'
import { askedFrom, openInterruptsOf } from './interrupts.ts'
import type { GraphInterrupt, ThreadState } from './interrupts.ts'
import type { GraphEnd } from './stream.ts'

type Values = Readonly<Record<string, unknown>>

/** Reads the thread of a run. */
interface ThreadReader {
  /** Returns the state of the thread with that of its subgraphs. `undefined` if nothing keeps the thread. */
  readonly state: () => Promise<unknown>
  /** Returns a checkpoint with the writes of the tasks after it. @default no checkpoint is read */
  readonly checkpoint?: ((config: unknown) => Promise<unknown>) | undefined
}

interface Ending extends Omit<ThreadState, 'interrupts'> {
  readonly end: GraphEnd
  readonly reader: ThreadReader
  /** @default `outputOf` */
  readonly output?: ((state: any) => GraphOutput | Promise<GraphOutput>) | undefined
}

const NO_THREAD =
  'It stopped at a breakpoint (interruptBefore or interruptAfter), and has no checkpointer to continue from there.'

/**
 * Makes the last updates of a run whose stream has ended, for graphs in this process and at a LangGraph server. The run
 * has finished if nothing is left to do in its thread. A stream also ends at a question, and at a breakpoint.
 */
export async function* endingOf({
  end,
  reader,
  output,
  ...thread
}: Ending): AsyncGenerator<AgentUpdate> {
  const stops = end.isStopped ? await stopsOf(end, reader) : []
  if (stops === undefined) {
    yield { type: 'failed', reason: NO_THREAD }
    return
  }
  const isFinished = stops.length === 0
  const made = isFinished && output ? await output(end.state) : undefined
  const given = typeof made === 'string' ? { text: made } : made
  const answer = given ?? (isFinished ? outputOf(end.state, end.start) : undefined)
  for (const file of answer ? (answer.files ?? []) : filesSoFar(end.state, end.start)) {
    yield { type: 'file', file }
  }
  if (answer === undefined) yield askedFrom(stops, thread)
  else yield { type: 'done', text: answer.text, structured: answer.structured, ui: answer.ui }
}

/** Returns the questions and breakpoints at which a run stopped. Empty if it has finished; `undefined` if that is unknown. */
async function stopsOf(
  { interrupts }: GraphEnd,
  { checkpoint, state }: ThreadReader,
): Promise<readonly GraphInterrupt[] | undefined> {
  const snapshot = await state().catch((error: unknown) => {
    if (interrupts.length === 0) throw error
    return undefined // the stream told the questions already
  })
  if (!isRecord(snapshot)) return interrupts.length > 0 ? interrupts : undefined
  const open = await openInterruptsOf(snapshot, checkpoint)
  const asked = interrupts.map(
    (each) => open.find(({ id }) => id !== undefined && id === each.id) ?? each,
  )
  return [...(interrupts.length > 0 ? asked : open), ...breakpointsOf(snapshot)]
}

// ---- breakpoints ---------------------------------------------------------------------------------------------------

/** A place at which a graph stopped before the tasks that are next. */
interface Stop {
  readonly next: readonly string[]
  readonly values: unknown
}

/** State of a thread that cannot be read, after the stream of its run has told that the graph stopped. */
export const UNREAD: Values = { next: [''] }

/** Returns one question for all breakpoints at which a thread stands. Empty if it stands at none. */
export function breakpointsOf(snapshot: Values): readonly GraphInterrupt[] {
  const stops = stopsIn(snapshot)
  if (stops.length === 0) return []
  const names = [...new Set(stops.flatMap(({ next }) => next))].filter((name) => name !== '')
  const quoted = names.map((name) => `"${name}"`).join(', ')
  const calls = stops.flatMap(({ values }) => callsIn(values))
  const lines = [
    `The agent stopped ${quoted === '' ? 'at a breakpoint' : `before ${shortened(quoted, MAX_NAMES)}`}.`,
    ...(calls.length === 0 ? [] : ['It is about to call:', ...calls]),
    'Continue?',
  ]
  return [{ breakpoint: lines.join('\n'), checkpoints: checkpointsOf(snapshot) }]
}

const MAX_NAMES = 300
const MAX_CALL = 1000

/** A level stopped at a breakpoint if none of its tasks has begun. A task with a subgraph may have stopped inside. */
function stopsIn({ next, tasks, values }: Values): readonly Stop[] {
  const names = Array.isArray(next) ? next.filter((name) => typeof name === 'string') : []
  if (names.length === 0) return []
  const all = Array.isArray(tasks) ? tasks.filter(isRecord) : []
  const inner = all.flatMap(({ state }) => (isRecord(state) ? stopsIn(state) : []))
  if (inner.length > 0) return inner
  return all.some(hasBegun) ? [] : [{ next: names, values }]
}

function hasBegun({ error, interrupts, result, state }: Values): boolean {
  const isAsking = Array.isArray(interrupts) && interrupts.length > 0
  const isInside = isRecord(state) && Array.isArray(state['next']) && state['next'].length > 0
  return isAsking || isInside || (error ?? result ?? undefined) !== undefined
}

/** Returns the calls of tools that a state asks for. */
function callsIn(values: unknown): readonly string[] {
  const messages = isRecord(values) ? values['messages'] : undefined
  const last = Array.isArray(messages) ? messageFrom(messages.at(-1)) : undefined
  return (last?.calls ?? []).map(({ args, name }) =>
    shortened(`${name} ${JSON.stringify(args)}`, MAX_CALL),
  )
}

/** Returns the ids of the checkpoints of a thread and its subgraphs. */
export function checkpointsOf({ checkpoint, config, tasks }: Values): readonly string[] {
  const configurable = isRecord(config) ? config['configurable'] : checkpoint
  const id = isRecord(configurable) ? configurable['checkpoint_id'] : undefined
  const inner = Array.isArray(tasks) ? tasks.filter(isRecord) : []
  return [
    ...(typeof id === 'string' ? [id] : []),
    ...inner.flatMap(({ state }) => (isRecord(state) ? checkpointsOf(state) : [])),
  ]
}
