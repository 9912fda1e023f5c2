import type { AgentCall } from '../src/agents/agent-call.ts'
import type { AgentUpdate } from '../src/agents/agent-update.ts'
import { AgentsAtHand } from './agents-at-hand.ts'
import { turns } from './turns.ts'

/** What calls of a race do; the last of them ends only when it is stopped. */
export const RACING_AGENTS = ['quick', 'late', 'talking', 'asking', 'endless'] as const

/** Agents that say what they were told, each in its time, and stop when they are told to. */
export function racingAgents(random: () => number): AgentsAtHand {
  const textOf = ({ input }: AgentCall): string => (input.kind === 'message' ? input.text : '')
  const pause = ({ signal }: AgentCall, most: number): Promise<void> =>
    unlessStopped(signal, turns(random, most))
  return new AgentsAtHand({
    *quick(call): Iterable<AgentUpdate> {
      yield { type: 'done', text: textOf(call) }
    },
    async *late(call): AsyncIterable<AgentUpdate> {
      await pause(call, 12)
      yield { type: 'done', text: textOf(call) }
    },
    async *talking(call): AsyncIterable<AgentUpdate> {
      for (let n = 0; n < 3; n++) {
        yield { type: 'status', text: `still ${n}` }
        if (random() < 0.6) await pause(call, 5)
      }
      yield { type: 'done', text: textOf(call) }
    },
    async *asking(call): AsyncIterable<AgentUpdate> {
      if (random() < 0.5) await pause(call, 5)
      if (call.resume) yield { type: 'done', text: textOf(call) }
      else yield { type: 'asked', questions: [{ id: 'q', message: 'Sure?' }], state: {} }
    },
    async *endless(call): AsyncIterable<AgentUpdate> {
      yield { type: 'status', text: 'begun' }
      await unlessStopped(call.signal, new Promise(() => undefined))
    },
  })
}

function unlessStopped(signal: AbortSignal, waiting: Promise<void>): Promise<void> {
  const stopped = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(new Error('stopped')))
  })
  return Promise.race([waiting, stopped])
}
