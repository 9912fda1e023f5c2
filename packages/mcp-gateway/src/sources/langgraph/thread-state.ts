import { isRecord } from '../../is-record.ts'
import type { GraphInterrupt } from './interrupt-questions.ts'

/** What continues a graph that stopped: its thread, and what it stopped at. JSON. */
export interface ThreadState {
  readonly thread: string
  readonly interrupts: readonly GraphInterrupt[]
}

/** @returns `undefined` for what is no such state */
export function threadStateFrom(value: unknown): ThreadState | undefined {
  if (!isRecord(value)) return undefined
  const { thread, interrupts } = value
  if (typeof thread !== 'string' || !Array.isArray(interrupts)) return undefined
  return interrupts.every(isRecord)
    ? { thread, interrupts: interrupts.map(interruptFrom) }
    : undefined
}

function interruptFrom({ id, value }: Readonly<Record<string, unknown>>): GraphInterrupt {
  return { id: typeof id === 'string' ? id : undefined, value }
}
