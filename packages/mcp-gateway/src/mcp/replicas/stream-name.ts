import type { RequestId } from '@modelcontextprotocol/server'

/** A stream of a session, and what another process has to know of it when the one that writes it is dead. */
export interface StreamPlace {
  /** As the SDK names it. */
  readonly stream: string
  /** The process that writes it. @default any: it is the one on which the client listens */
  readonly replica?: string | undefined
  /** Requests that it answers. */
  readonly requestIds: readonly RequestId[]
}

/** As the SDK names the stream on which a client listens, beside its calls. */
const LISTENING = '_GET_stream'
/** Longer lists of ids are left out: of such a stream nobody can say what it owes. */
const MAX_IDS_CHARS = 512

/** The name of a stream in the log says all that is known of it: it is there as long as its events are. */
export function streamNameOf({ stream, replica, requestIds }: StreamPlace): string {
  if (replica === undefined || stream === LISTENING) return stream
  const ids = JSON.stringify(requestIds)
  return `${stream}:${replica}:${ids.length > MAX_IDS_CHARS ? '[]' : ids}`
}

export function streamPlaceFrom(name: string): StreamPlace {
  const [, stream = name, replica, ids = '[]'] = /^([^:]+):([^:]+):(\[.*\])$/s.exec(name) ?? []
  const requestIds: unknown = JSON.parse(ids)
  return { stream, replica, requestIds: Array.isArray(requestIds) ? requestIds.filter(isId) : [] }
}

/** Whether it is the one beside all calls, which has no end of its own. */
export function isForListening({ stream }: StreamPlace): boolean {
  return stream === LISTENING
}

function isId(value: unknown): value is RequestId {
  return typeof value === 'string' || typeof value === 'number'
}
