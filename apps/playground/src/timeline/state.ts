import type {
  ConversationItem,
  Exchange,
  ProcessState,
  RunState,
  ServerState,
  SessionRecord,
  TimelineEvent,
} from './events.ts'

/** Everything that a page shows. A page gets it once, as it is, and then keeps it current with `reduce`. */
export interface PlaygroundState {
  readonly processes: Readonly<Record<string, ProcessState>>
  readonly servers: readonly ServerState[]
  /** In the order of their start; the last 2,000. */
  readonly exchanges: readonly Exchange[]
  readonly records: readonly SessionRecord[]
  /** The last 500. */
  readonly conversation: readonly ConversationItem[]
  /** The newest run. */
  readonly run?: RunState | undefined
  /** The last 20. */
  readonly notices: readonly Notice[]
}

export type Notice = Extract<TimelineEvent, { type: 'notice' }> & { readonly id: number }

export const EMPTY_STATE: PlaygroundState = {
  processes: {},
  servers: [],
  exchanges: [],
  records: [],
  conversation: [],
  notices: [],
}

/** Returns the state after an event. Pure. */
export function reduce(state: PlaygroundState, event: TimelineEvent): PlaygroundState {
  return { ...state, ...changeOf(state, event) }
}

const MAX_EXCHANGES = 2000
const MAX_ITEMS = 500
const MAX_NOTICES = 20

function changeOf(state: PlaygroundState, event: TimelineEvent): Partial<PlaygroundState> {
  switch (event.type) {
    case 'process':
      return { processes: { ...state.processes, [event.process.name]: event.process } }
    case 'server':
      return { servers: put(state.servers, event.server, ({ name }) => name) }
    case 'exchange':
      // The end of a stream may come after the stream was dropped from the list.
      if (event.exchange.id < (state.exchanges[0]?.id ?? 0)) return {}
      return {
        exchanges: put(state.exchanges, event.exchange, ({ id }) => id).slice(-MAX_EXCHANGES),
      }
    case 'records':
      return { records: event.records }
    case 'item':
      return { conversation: put(state.conversation, event.item, keyOf).slice(-MAX_ITEMS) }
    case 'text':
      return {
        conversation: state.conversation.map((item) => {
          const isMeant = item.type === 'message' && item.id === event.id
          return isMeant ? { ...item, text: item.text + event.text } : item
        }),
      }
    case 'tool-call-changed':
      return {
        conversation: state.conversation.map((item) => {
          const isMeant = item.type === 'tool-call' && item.id === event.id
          return isMeant ? { ...item, ...event.change } : item
        }),
      }
    case 'run':
      return { run: event.run }
    case 'conversation':
      return { conversation: event.items, run: event.run }
    case 'notice': {
      const id = (state.notices.at(-1)?.id ?? 0) + 1
      return { notices: [...state.notices, { ...event, id }].slice(-MAX_NOTICES) }
    }
  }
}

function keyOf({ type, id }: ConversationItem): string {
  return `${type} ${id}`
}

/** Replaces the item with the same key at its place, or appends it. */
function put<T>(items: readonly T[], item: T, toKey: (item: T) => unknown): readonly T[] {
  const key = toKey(item)
  const index = items.findLastIndex((other) => toKey(other) === key)
  return index < 0 ? [...items, item] : items.with(index, item)
}
