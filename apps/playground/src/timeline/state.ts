import type { QuestionAction } from './commands.ts'
import type {
  Exchange,
  MessageStart,
  ProcessState,
  Question,
  RunState,
  ServerState,
  SessionRecord,
  TimelineEvent,
  ToolCallStart,
  ToolResult,
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

export type ConversationItem =
  | ({ readonly type: 'message' } & MessageStart)
  | ({
      readonly type: 'tool-call'
      readonly progress?: string | undefined
      readonly result?: ToolResult | undefined
    } & ToolCallStart)
  | ({ readonly type: 'question'; readonly action?: QuestionAction | undefined } & Question)

export interface Notice {
  readonly id: number
  readonly at: number
  readonly level: 'info' | 'problem'
  readonly text: string
}

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
    case 'message':
      return append(state, { type: 'message', ...event.message })
    case 'text':
      return change(state, 'message', {
        id: event.messageId,
        update: (item) => ({
          ...item,
          text: item.text + event.text,
        }),
      })
    case 'tool-call':
      return append(state, { type: 'tool-call', ...event.call })
    case 'tool-progress':
      return change(state, 'tool-call', {
        id: event.callId,
        update: (item) => ({ ...item, progress: event.text }),
      })
    case 'tool-result':
      return change(state, 'tool-call', {
        id: event.callId,
        update: (item) => ({ ...item, result: event.result }),
      })
    case 'question':
      return append(state, { type: 'question', ...event.question })
    case 'question-closed':
      return change(state, 'question', {
        id: event.questionId,
        update: (item) => ({
          ...item,
          action: event.action,
        }),
      })
    case 'run':
      return { run: event.run }
    case 'conversation-cleared':
      return { conversation: [], run: undefined }
    case 'notice': {
      const { at, level, text } = event
      const id = (state.notices.at(-1)?.id ?? 0) + 1
      return { notices: [...state.notices, { id, at, level, text }].slice(-MAX_NOTICES) }
    }
  }
}

/** Replaces the item with the same key at its place, or appends it. */
function put<T>(items: readonly T[], item: T, keyOf: (item: T) => unknown): readonly T[] {
  const key = keyOf(item)
  const index = items.findLastIndex((other) => keyOf(other) === key)
  return index < 0 ? [...items, item] : items.with(index, item)
}

function append(
  { conversation }: PlaygroundState,
  item: ConversationItem,
): Partial<PlaygroundState> {
  return { conversation: [...conversation, item].slice(-MAX_ITEMS) }
}

type ItemOf<Type> = Extract<ConversationItem, { type: Type }>

/** Changes one item of the conversation; an item that is not there (any more) changes nothing. */
function change<Type extends ConversationItem['type']>(
  state: PlaygroundState,
  type: Type,
  changed: { id: string; update: (item: ItemOf<Type>) => ItemOf<Type> },
): Partial<PlaygroundState> {
  const isMeant = (item: ConversationItem): item is ItemOf<Type> =>
    item.type === type && item.id === changed.id
  const index = state.conversation.findLastIndex(isMeant)
  const item = state.conversation[index]
  if (item === undefined || !isMeant(item)) return {}
  return { conversation: state.conversation.with(index, changed.update(item)) }
}
