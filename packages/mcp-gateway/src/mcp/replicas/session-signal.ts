import { isRecord } from '@x/internal'

/** What processes tell each other of a session that they share. */
export type SessionSignal =
  /** It is over, everywhere. */
  | { readonly type: 'ended' }
  /** Its client listens at the sender now. */
  | { readonly type: 'listen' }
  | {
      readonly type: 'state'
      readonly level?: string | undefined
      readonly followed?: readonly string[] | undefined
    }
  /** Its client sent this; it is for whoever runs what it is about. */
  | { readonly type: 'message'; readonly message: Readonly<Record<string, unknown>> }
  /** The client of this stream reads it at the sender: whoever writes it says on. */
  | { readonly type: 'follow'; readonly stream: string }
  /** The client left the sender; `isComplete`: with all of it. */
  | { readonly type: 'unfollow'; readonly stream: string; readonly isComplete: boolean }
  /** The client is back where the stream is written. */
  | { readonly type: 'taken'; readonly stream: string }
  /** What a followed stream says. */
  | {
      readonly type: 'event'
      readonly stream: string
      readonly id: string
      readonly message: Readonly<Record<string, unknown>>
      readonly isLast: boolean
    }

/** As another process sent it; `undefined` for what this version does not know. */
export function sessionSignalFrom(value: unknown): SessionSignal | undefined {
  if (!isRecord(value)) return undefined
  const { type, stream, id, message } = value
  switch (type) {
    case 'ended':
    case 'listen':
      return { type }
    case 'state':
      return stateFrom(value)
    case 'message':
      return isRecord(message) ? { type, message } : undefined
  }
  if (typeof stream !== 'string') return undefined
  switch (type) {
    case 'follow':
    case 'taken':
      return { type, stream }
    case 'unfollow':
      return { type, stream, isComplete: value['isComplete'] === true }
    case 'event':
      if (typeof id !== 'string' || !isRecord(message)) return undefined
      return { type, stream, id, message, isLast: value['isLast'] === true }
  }
  return undefined
}

function stateFrom({ level, followed }: Readonly<Record<string, unknown>>): SessionSignal {
  return {
    type: 'state',
    ...(typeof level === 'string' && { level }),
    ...(Array.isArray(followed) && {
      followed: followed.filter((uri: unknown) => typeof uri === 'string'),
    }),
  }
}
