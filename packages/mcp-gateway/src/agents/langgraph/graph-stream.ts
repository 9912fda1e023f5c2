import { isRecord } from '@x/internal'
import type { AgentUpdate } from '../agent-update.ts'
import { updateFromCustom } from './custom-event.ts'
import { isModelMessage, textOfMessage } from './graph-output.ts'
import type { GraphInterrupt } from './interrupt-questions.ts'

export const STREAM_MODES = ['messages', 'updates', 'custom', 'values'] as const

/** What is to be known of a graph's stream once it ended. */
export interface GraphEnd {
  state: unknown
  interrupts: readonly GraphInterrupt[]
}

/** One chunk of `graph.stream()` with `subgraphs: true`: an update, or a part of the end. */
export function readChunk(chunk: unknown, end: GraphEnd): AgentUpdate | undefined {
  if (!Array.isArray(chunk)) return undefined
  const [path, mode, payload]: readonly unknown[] = chunk
  const isRoot = Array.isArray(path) && path.length === 0
  switch (mode) {
    case 'messages':
      return textFrom(payload)
    case 'custom':
      return updateFromCustom(payload)
    case 'updates':
      return isRoot ? stepFrom(payload) : undefined
    case 'values':
      if (isRoot) readValues(payload, end)
      return undefined
    default:
      return undefined
  }
}

function textFrom(payload: unknown): AgentUpdate | undefined {
  const message: unknown = Array.isArray(payload) ? payload[0] : undefined
  const text = isModelMessage(message) ? textOfMessage(message) : ''
  return text === '' ? undefined : { type: 'text', text }
}

function stepFrom(payload: unknown): AgentUpdate | undefined {
  const names = isRecord(payload) ? Object.keys(payload).filter((name) => !isOfLangGraph(name)) : []
  return names.length === 0 ? undefined : { type: 'status', text: `Done: ${names.join(', ')}` }
}

/**
 * Interrupts of parallel nodes come one by one, and the state of a node beside them may come after them: they
 * stand until the stream ends.
 */
function readValues(payload: unknown, end: GraphEnd): void {
  const found = isRecord(payload) ? payload['__interrupt__'] : undefined
  if (!Array.isArray(found)) {
    end.state = payload
    return
  }
  const known = new Set(end.interrupts.map(({ id }) => id))
  const fresh = found.filter(isInterrupt).filter(({ id }) => id === undefined || !known.has(id))
  end.interrupts = [...end.interrupts, ...fresh]
}

function isInterrupt(value: unknown): value is GraphInterrupt {
  return isRecord(value) && (value['id'] === undefined || typeof value['id'] === 'string')
}

function isOfLangGraph(name: string): boolean {
  return name.startsWith('__')
}
