import type { Client } from '@langchain/langgraph-sdk'
import { isRecord } from '@x/internal'
import type { Clock } from '../../internal/clock.ts'
import { pause } from '../../internal/timers.ts'
import { GatewayError } from '../../errors.ts'
import { RunFailure, type AgentUpdate, type Resume } from '../agent.ts'
import { PAGE } from './assistants.ts'
import { openInterruptsOf } from './interrupts.ts'
import { readChunk, type GraphEnd } from './stream.ts'
import { lostQuestion, resumeOfOpen } from './thread.ts'

/** Key of the metadata of a run. The value names the run to other processes. */
export const RUN_NAME = 'mcp_gateway_run'

export const STREAM_MODE: ('messages-tuple' | 'updates' | 'custom' | 'values')[] = [
  'messages-tuple',
  'updates',
  'custom',
  'values',
]

/** After so many failed requests in a row, a run is not followed any more. */
const MAX_FAILURES = 6
const AGAIN_MS = 250

/** A server, for the time of one run. */
interface RunServer {
  readonly client: Client
  readonly clock: Clock
  readonly signal: AbortSignal
}

/** A run at the server, with what another process needs to find it. */
interface RemoteThread {
  readonly thread: string
  readonly run: string
}

/** @returns `undefined` for anything else than the state of a run at the server */
export function remoteThreadFrom(value: unknown): RemoteThread | undefined {
  if (!isRecord(value)) return undefined
  const { thread, run } = value
  return typeof thread === 'string' && typeof run === 'string' ? { thread, run } : undefined
}

/** Returns the id of a run. `undefined` if the server does not know the run. */
export async function findRun(
  server: RunServer,
  { thread, run }: RemoteThread,
): Promise<string | undefined> {
  const { client, signal } = server
  const runs = await persistently(server, () => client.runs.list(thread, { limit: PAGE, signal }))
  return runs?.find(({ metadata }) => isRecord(metadata) && metadata[RUN_NAME] === run)?.run_id
}

/** Asks again while the server fails. @returns `undefined` if the server does not know the thread */
async function persistently<T>(
  { clock, signal }: RunServer,
  ask: () => Promise<T>,
): Promise<T | undefined> {
  for (let failures = 0; ;) {
    try {
      return await ask()
    } catch (error) {
      signal.throwIfAborted()
      if (isUnknown(error)) return undefined
      if (++failures >= MAX_FAILURES) throw error
      await pause(AGAIN_MS * 2 ** failures, clock, signal)
    }
  }
}

/** Follows a run that was started before to its end. @throws RunError; HTTPError 404 for an unknown run */
export async function* followRun(
  { client, clock, signal }: RunServer,
  { thread, runId }: { readonly thread: string; readonly runId: string },
  end: GraphEnd,
): AsyncGenerator<AgentUpdate> {
  let status = ''
  for (let failures = 0; !hasEnded(status);) {
    try {
      const options = { signal, cancelOnDisconnect: false, streamMode: [...STREAM_MODE] }
      for await (const { event, data } of client.runs.joinStream(thread, runId, options)) {
        failures = 0
        // The state at the end tells more than what is left of the stream.
        const update = event === 'error' ? undefined : updateFrom(event, data, end)
        if (update !== undefined) yield update
      }
      status = (await client.runs.get(thread, runId, { signal })).status
    } catch (error) {
      signal.throwIfAborted()
      if (isUnknown(error) || ++failures >= MAX_FAILURES) throw error
    }
    if (!hasEnded(status)) await pause(AGAIN_MS * 2 ** failures, clock, signal)
  }
  if (status === 'error' || status === 'timeout') throw new RunError({ error: status })
  const snapshot = await client.threads.getState(thread, undefined, { signal })
  end.state = snapshot.values
  end.interrupts = await openInterruptsOf({ ...snapshot })
  // Some servers report a run that stopped as a success. A cancelled run has no interrupts either.
  const isStopped = end.interrupts.length > 0 || (status === 'success' && snapshot.next?.length > 0)
  end.isStopped ||= isStopped
  if (status === 'interrupted' && !end.isStopped)
    throw new RunError({ error: 'The run was cancelled at the server' })
}

/** Whether a run has ended, or has stopped to ask. */
function hasEnded(status: string): boolean {
  return status !== '' && status !== 'pending' && status !== 'running'
}

// ---- answers to questions ------------------------------------------------------------------------------------------

/**
 * Returns the value of `Command({ resume })`, after the server has confirmed that the thread still stands at the
 * question. Somebody else may have answered it, for example in Studio.
 *
 * @returns `undefined` for a breakpoint: the graph continues with `null`
 * @throws RunFailure `outcome_unknown` if the thread is gone or has moved on; `unavailable`, before the answer is used, if
 *   the server cannot be asked
 */
export async function confirmedResume(
  server: RunServer,
  thread: string,
  resume: Resume,
): Promise<unknown> {
  const { client, signal } = server
  const read = (): Promise<unknown> =>
    client.threads.getState(thread, undefined, { subgraphs: true, signal })
  const state = await persistently(server, read).catch((cause: unknown) => {
    signal.throwIfAborted()
    const text =
      'Its server cannot be reached now, so the answer was not sent. Give it again in a moment.'
    throw new RunFailure('unavailable', text, { cause, retryAfterMs: 5000, isStarted: false })
  })
  return resumeOfOpen(resume, isRecord(state) ? state : undefined)
}

/**
 * Returns the failure of a call after its answer was sent and before the server has named the run: the server refused the
 * answer, or the connection broke and the server may have taken it. `undefined` for other errors.
 */
export function lostAnswer(error: unknown): RunFailure | undefined {
  if (isBroken(error)) {
    const text =
      'The connection to its server broke while the answer was sent, so the run may have continued. Check what the call did before you call again.'
    return new RunFailure('outcome_unknown', text, { cause: error })
  }
  if (isUnknown(error)) return lostQuestion({ cause: error })
  // 409 of servers for Python, 422 of those for JavaScript, which also have it for wrong input.
  const isBusy =
    hasStatus(error, 409) || (hasStatus(error, 422) && /already running/i.test(error.message))
  return isBusy ? lostQuestion({ cause: error }) : undefined
}

// ---- errors --------------------------------------------------------------------------------------------------------

/** Returns whether the server does not know the thread or the run. */
export function isUnknown(error: unknown): boolean {
  return hasStatus(error, 404)
}

/** Returns whether a request ended without a status. */
function isBroken(error: unknown): boolean {
  const isOurs = error instanceof RunError || error instanceof RunFailure || GatewayError.is(error)
  return !isOurs && !(error instanceof Error && 'status' in error)
}

function hasStatus(error: unknown, status: number): error is Error {
  return error instanceof Error && 'status' in error && error.status === status
}

/** @throws RunError for the event of a failed run */
export function updateFrom(event: string, data: unknown, end: GraphEnd): AgentUpdate | undefined {
  if (event === 'error') throw new RunError(data)
  const [mode, ...path] = event.split('|')
  return readChunk([path, mode, data], end, true)
}

/** A run that failed at the server. Its cause, for the log, has the class and the message that the server sent. */
export class RunError extends Error {
  constructor(data: unknown) {
    const { error, message } = isRecord(data) ? data : {}
    const texts = [error, message].filter((each) => typeof each === 'string')
    const cause = new Error(texts.join(': ') || 'The server sent no reason')
    super('The run failed at the server', { cause })
  }
}
