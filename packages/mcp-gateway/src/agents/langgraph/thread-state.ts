import { isRecord } from '@x/internal'
import type { Resume } from '../agent-call.ts'
import type { AgentUpdate } from '../agent-update.ts'
import {
  authorizationFrom,
  questionsOf,
  resumeValueOf,
  type GraphInterrupt,
} from './interrupt-questions.ts'

/** What continues a graph that stopped: its thread, and what it stopped at. JSON. */
export interface ThreadState {
  readonly thread: string
  readonly interrupts: readonly GraphInterrupt[]
  /** The thread is a conversation: it outlives the run. @default false */
  readonly isConversation?: boolean | undefined
}

/** @returns `undefined` for what is no such state */
export function threadStateFrom(value: unknown): ThreadState | undefined {
  if (!isRecord(value)) return undefined
  const { thread, interrupts, isConversation } = value
  if (typeof thread !== 'string' || !Array.isArray(interrupts)) return undefined
  return interrupts.every(isRecord)
    ? { thread, interrupts: interrupts.map(interruptFrom), isConversation: isConversation === true }
    : undefined
}

function interruptFrom({ id, value }: Readonly<Record<string, unknown>>): GraphInterrupt {
  return { id: typeof id === 'string' ? id : undefined, value }
}

/** What a run says that stopped at interrupts. */
export function askedFrom(
  interrupts: readonly GraphInterrupt[],
  { thread, isConversation }: Omit<ThreadState, 'interrupts'>,
): AgentUpdate {
  const stopped = interrupts.map(({ id, value }) => ({ id, value }))
  const state = { thread, interrupts: stopped, ...(isConversation && { isConversation }) }
  const [first] = interrupts
  const url = first && authorizationFrom(first)
  if (url !== undefined && interrupts.length === 1) return { type: 'authorization', url, state }
  return { type: 'asked', questions: interrupts.flatMap(questionsOf), state }
}

/** For `Command({ resume })`. By id where there is one: several at once could not be told apart otherwise. */
export function resumeOf({ state, answers }: Resume): unknown {
  const interrupts = threadStateFrom(state)?.interrupts ?? []
  const values = interrupts.map((interrupt, index) => {
    return [interrupt.id, resumeValueOf(interrupt, index, answers)] as const
  })
  const [first] = values
  return first?.[0] === undefined ? first?.[1] : Object.fromEntries(values)
}
