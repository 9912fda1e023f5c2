import { setTimeout as sleep } from 'node:timers/promises'
import { isRecord } from '@x/internal'
import { RunFailure, type AgentCall, type Resume } from '../agent.ts'
import { declaredBreakpoints, threadKeeperOf, type RunnableGraph } from './definition.ts'
import { breakpointsOf, checkpointsOf } from './ending.ts'
import {
  areOpen,
  openInterruptsOf,
  resumeOf,
  threadStateFrom,
  type GraphInterrupt,
} from './interrupts.ts'

/** If a process does not run for this time, the engine may give its runs to another process. */
const FREEZE_MS = 2000
/** In this time, a process that was frozen learns from the engine that it has lost its runs. */
const WAKE_MS = 2000
const BEAT_MS = 500

/**
 * Holds up the next node of a run after its process was frozen, until the engine has had time to abort the run. Otherwise
 * the node would also run in the process that has the run now.
 */
export function guardAfterFreeze(
  signal: AbortSignal,
): Disposable & { readonly callbacks: object[] } {
  let beatAt = performance.now()
  let wokeAt = -Infinity
  const beat = (): void => {
    const now = performance.now()
    if (now - beatAt > FREEZE_MS) wokeAt = now
    beatAt = now
  }
  const timer = setInterval(beat, BEAT_MS).unref()
  const handleChainStart = async (): Promise<void> => {
    beat()
    const leftMs = wokeAt + WAKE_MS - beatAt
    if (leftMs > 0) await sleep(leftMs, undefined, { signal }).catch(() => {})
    // LangGraph itself ends an aborted run. It would print an error that is thrown here.
    if (signal.aborted) await new Promise(() => {})
  }
  return {
    // LangChain calls this before each node, and waits for it.
    callbacks: [{ handleChainStart, awaitHandlers: true }],
    [Symbol.dispose]: () => clearInterval(timer),
  }
}

/**
 * LangGraph drops nodes that a new version of the graph does not have, and returns the state so far as the result.
 *
 * @throws RunFailure `outcome_unknown` if such a node is next in a thread
 */
export async function assertKnownNodes(graph: RunnableGraph, thread: string): Promise<void> {
  const tuple = await threadKeeperOf(graph)?.getTuple?.({ configurable: { thread_id: thread } })
  const checkpoint = isRecord(tuple) ? tuple['checkpoint'] : undefined
  const values = isRecord(checkpoint) ? checkpoint['channel_values'] : undefined
  const { channels } = graph
  if (!isRecord(values) || !channels) return
  const { __pregel_tasks: sends } = values
  const targets = Array.isArray(sends) ? sends.filter(isRecord) : []
  const next = [...Object.keys(values), ...targets.map(({ node }) => `branch:to:${String(node)}`)]
  const gone = next.find((key) => /^(?:branch:to|join):/.test(key) && !(key in channels))
  if (gone === undefined) return
  const node = gone.split(':').at(-1)
  const text = `The graph has changed since the call began: the node "${node}", which is next, does not exist any more. Check what the call did before you call again.`
  throw new RunFailure('outcome_unknown', text)
}

/** Returns the questions that are open in a thread. `undefined`: it has no checkpoint. */
export async function openInterrupts(
  graph: RunnableGraph,
  thread: string,
): Promise<readonly GraphInterrupt[] | undefined> {
  const state = await threadStateOf(graph, thread)
  return state && openInterruptsOf(state, checkpointReaderOf(graph))
}

/** Returns the state of a thread with that of its subgraphs. `undefined`: it has no checkpoint. */
export async function threadStateOf(
  graph: RunnableGraph,
  thread: string,
): Promise<Readonly<Record<string, unknown>> | undefined> {
  if (!graph.checkpointer) return undefined
  const config = { configurable: { thread_id: thread } }
  const state = await graph.getState?.(config, { subgraphs: true })
  const { configurable } = isRecord(state) && isRecord(state['config']) ? state['config'] : {}
  const hasCheckpoint = isRecord(configurable) && configurable['checkpoint_id'] !== undefined
  return isRecord(state) && hasCheckpoint ? state : undefined
}

export function checkpointReaderOf(graph: RunnableGraph): (config: unknown) => Promise<unknown> {
  const keeper = threadKeeperOf(graph)
  return async (config) => keeper?.getTuple?.(config)
}

/**
 * Returns the breakpoints at which an earlier process may have stopped before it could ask. A graph that continues with
 * `null` passes the breakpoint at which it stands.
 */
export async function newBreakpoints(
  graph: RunnableGraph,
  { resume }: AgentCall,
  thread: string,
): Promise<readonly GraphInterrupt[]> {
  const { after, before } = declaredBreakpoints(graph)
  if (!after && before.size === 0) return []
  const state = await threadStateOf(graph, thread)
  if (state === undefined || isAtBreakpointOf(resume, state)) return []
  const mayStand = after || before.has('*') || nextIn(state).some((name) => before.has(name))
  return mayStand ? breakpointsOf(state) : []
}

/** Returns whether the call answers the breakpoint at which the thread has stopped. */
function isAtBreakpointOf(
  resume: AgentCall['resume'],
  state: Readonly<Record<string, unknown>>,
): boolean {
  const answered = resume && threadStateFrom(resume.state)?.interrupts.at(-1)?.checkpoints
  if (answered === undefined) return false
  // The state of the thread at a LangGraph server could not be read when the graph stopped, or has no ids.
  if (answered.length === 0) return breakpointsOf(state).length > 0
  return answered.join() === checkpointsOf(state).join()
}

/**
 * Returns the value of `Command({ resume })` for a thread that stands at the question that is answered.
 *
 * @param state state of the thread, with its subgraphs. `undefined`: the thread is gone
 * @param readCheckpoint as for `openInterruptsOf()`
 * @returns `undefined` for a breakpoint: the graph continues with `null`
 * @throws RunFailure `outcome_unknown` if the question is not open
 */
export async function resumeOfOpen(
  resume: Resume,
  state: Readonly<Record<string, unknown>> | undefined,
  readCheckpoint?: (config: unknown) => Promise<unknown>,
): Promise<unknown> {
  if (state === undefined) throw lostQuestion()
  const value = resumeOf(resume)
  const isOpen =
    value === undefined
      ? isAtBreakpointOf(resume, state)
      : areOpen(resume, await openInterruptsOf(state, readCheckpoint))
  if (!isOpen) throw lostQuestion()
  return value
}

/**
 * A graph whose thread has gone would begin again with the answer: what it did before its question would be done twice. With
 * `null` it would continue from wherever its thread is now.
 */
export function lostQuestion(options?: ErrorOptions): RunFailure {
  const text =
    'Its thread does not stand at the question any more that the answer is for, so nothing was continued. Check what the call did before you call again.'
  return new RunFailure('outcome_unknown', text, options)
}

/** Names of the nodes that are next in a thread and its subgraphs. */
function nextIn({ next, tasks }: Readonly<Record<string, unknown>>): readonly string[] {
  const names = Array.isArray(next) ? next.filter((name) => typeof name === 'string') : []
  const inner = Array.isArray(tasks) ? tasks.filter(isRecord) : []
  return [...names, ...inner.flatMap(({ state }) => (isRecord(state) ? nextIn(state) : []))]
}
