import type { SessionRecord } from '@x/mcp-transport'

/** What is kept for one server: an id, a record, both, or nothing. A record names the same id. */
export interface StoredSession {
  readonly sessionId?: string | undefined
  readonly record?: SessionRecord | undefined
}

/** The local copy of what the service keeps. */
export type SessionCopy =
  | { readonly phase: 'not-loaded' }
  | {
      readonly phase: 'loaded'
      readonly session: StoredSession
      /** Our own session that lost to `session` of another process; what is still said of it is late. */
      readonly insteadOf?: string | undefined
    }
  /** Given up here. Never read back: the service may still hold the dead id. */
  | { readonly phase: 'cleared' }

export type SessionCopyEvent =
  | { readonly type: 'read'; readonly session: StoredSession }
  | { readonly type: 'idSet'; readonly sessionId: string | undefined }
  | { readonly type: 'recordSet'; readonly record: SessionRecord | undefined }
  /** Another process stored its session first; ours, if it had an id, is `insteadOf`. */
  | {
      readonly type: 'superseded'
      readonly session: StoredSession
      readonly insteadOf?: string | undefined
    }

/** The whole life of a local copy. Pure; the same object means that nothing changed. */
export function nextCopy(copy: SessionCopy, event: SessionCopyEvent): SessionCopy {
  switch (event.type) {
    case 'read':
      // Whatever was set while the answer was on its way is newer than the answer.
      return copy.phase === 'not-loaded' ? { phase: 'loaded', session: event.session } : copy
    case 'idSet':
      if (event.sessionId === undefined) return { phase: 'cleared' }
      if (copy.phase === 'loaded') {
        if (copy.session.sessionId === event.sessionId) return copy
        if (copy.insteadOf === event.sessionId) return copy
      }
      return { phase: 'loaded', session: { sessionId: event.sessionId } }
    case 'recordSet': {
      if (event.record === undefined) return { phase: 'cleared' }
      const { sessionId } = event.record
      if (copy.phase === 'loaded' && sessionId !== undefined && copy.insteadOf === sessionId) {
        return copy
      }
      return { phase: 'loaded', session: { sessionId, record: event.record } }
    }
    case 'superseded':
      return { phase: 'loaded', session: event.session, insteadOf: event.insteadOf }
  }
}
