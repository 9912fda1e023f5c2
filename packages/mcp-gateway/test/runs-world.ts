import { callsOf, type GivenRuns } from './settings.ts'
import { GatewayError } from '../src/errors.ts'
import type { ResultFiles, RunFiles } from '../src/files/result-files.ts'
import type { RunEvent } from '../src/internal/run-event.ts'
import type { Calls } from '../src/runs/calls.ts'
import type { Runs } from '../src/runs/runs.ts'
import type { ToolOutcome } from '../src/runs/order.ts'
import { MemoryGatewayStore } from '../src/store/memory-store.ts'
import { ManualClock } from './manual-clock.ts'
import { ScriptedSource, type Script } from './scripted-source.ts'

/** Runs of one agent that does what a test wrote down. */
export interface RunsWorld extends AsyncDisposable {
  readonly calls: Calls
  readonly runs: Runs
  readonly source: ScriptedSource
  readonly clock: ManualClock
  readonly events: readonly RunEvent[]
}

export function runsOf(script: Script, options: Partial<GivenRuns> = {}): RunsWorld {
  const clock = new ManualClock()
  const source = new ScriptedSource(script)
  const events: RunEvent[] = []
  const store = new MemoryGatewayStore({ now: () => clock.now() })
  const calls = callsOf({
    agents: source,
    records: store.records,
    clock,
    onEvent: (event) => events.push(event),
    ...options,
  })
  return {
    calls,
    runs: calls.parts.runs,
    source,
    clock,
    events,
    [Symbol.asyncDispose]: async () => {
      await calls.close()
      await store.close()
    },
  }
}

/** Two processes with one store, and the same agent. */
export interface RunsReplicas extends AsyncDisposable {
  readonly a: Calls
  readonly b: Calls
  readonly source: ScriptedSource
  readonly clock: ManualClock
  readonly store: MemoryGatewayStore
}

export function replicas(script: Script, options: Partial<GivenRuns> = {}): RunsReplicas {
  const clock = new ManualClock()
  const store = new MemoryGatewayStore({ now: () => clock.now() })
  const source = new ScriptedSource(script)
  const make = (): Calls => callsOf({ agents: source, records: store.records, clock, ...options })
  const [a, b] = [make(), make()]
  return {
    a,
    b,
    source,
    clock,
    store,
    [Symbol.asyncDispose]: async () => {
      await Promise.all([a.close(), b.close()])
      await store.close()
    },
  }
}

/** Why a call failed. */
export function reasonOf(outcome: ToolOutcome): unknown {
  return outcome.type === 'result' ? outcome.result['_meta']?.['reason'] : outcome.type
}

export function textsOf(outcome: ToolOutcome): readonly string[] {
  if (outcome.type !== 'result') throw new Error('it asked')
  return outcome.result.content.map((block) => (block.type === 'text' ? block.text : block.type))
}

export function metaOf(outcome: ToolOutcome): unknown {
  return outcome.type === 'result' ? outcome.result['_meta'] : undefined
}

/** Never says anything, and ends when it is told to stop. */
export const waitingForTheEnd: Script = async function* ({ signal }) {
  yield { type: 'status', text: 'thinking' }
  await new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason))
  })
}

/** What the gateway itself asks of the files of a run. */
export const NO_OWN_FILES: Pick<RunFiles, 'keep' | 'list' | 'read' | 'resultMaxBytes'> = {
  resultMaxBytes: 1_000_000,
  keep: async () => undefined,
  read: async () => undefined,
  list: async () => [],
}

/** Files that are kept by name alone; `too-large` finds no room. */
export const filesOfMemory = (): ResultFiles => ({
  input: async () => [],
  open: () => {
    const names: string[] = []
    return {
      ...NO_OWN_FILES,
      write: async ({ name }) => {
        if (name === 'too-large') throw new GatewayError('QUOTA', 'There is no room left')
        names.push(name)
        return { uri: `artifact://s/${name}`, version: 1 }
      },
      blocks: async () =>
        names.map((name) => ({ type: 'resource_link', uri: `artifact://s/${name}`, name })),
      soFar: async () => ({ blocks: [], shown: [] }),
    }
  },
})
