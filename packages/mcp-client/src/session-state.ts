import type { Generation } from './generation.ts'

/** State of a session. Only `nextState` changes it, and every change emits the event `state`. */
export type SessionState =
  /** Nothing is open. */
  | { readonly phase: 'created' }
  /** Phase 1: finding the server, creating the dispatcher and the session store. */
  | { readonly phase: 'connecting' }
  /** Phase 2: the MCP handshake. `isFirst` is false when a lost session is replaced. */
  | { readonly phase: 'handshaking'; readonly isFirst: boolean }
  | { readonly phase: 'active'; readonly generation: Generation }
  /** Phase 1 is done, but there is no session. The next operation opens one. */
  | { readonly phase: 'idle' }
  | { readonly phase: 'disposing' }

export type SessionEvent =
  /** An operation needs a session. */
  | { readonly type: 'needed' }
  /** Phase 1 has succeeded. */
  | { readonly type: 'connected' }
  /** Phase 2 has succeeded. */
  | { readonly type: 'opened'; readonly generation: Generation }
  /** The current phase has failed. */
  | { readonly type: 'failed' }
  /** The server refused the session, or the connection was closed. */
  | { readonly type: 'ended'; readonly generation: Generation }
  | { readonly type: 'disposing' }
  | { readonly type: 'disposed' }

/** Returns the state after an event. An event that does not fit the state changes nothing. Does no I/O. */
export function nextState(state: SessionState, event: SessionEvent): SessionState {
  switch (event.type) {
    case 'needed':
      if (state.phase === 'created') return { phase: 'connecting' }
      return state.phase === 'idle' ? { phase: 'handshaking', isFirst: false } : state
    case 'connected':
      return state.phase === 'connecting' ? { phase: 'handshaking', isFirst: true } : state
    case 'opened':
      return state.phase === 'handshaking'
        ? { phase: 'active', generation: event.generation }
        : state
    case 'failed':
      if (state.phase === 'connecting') return { phase: 'created' }
      if (state.phase !== 'handshaking') return state
      return state.isFirst ? { phase: 'created' } : { phase: 'idle' }
    case 'ended':
      // A late event of an older generation must not end the one that replaced it.
      return state.phase === 'active' && state.generation === event.generation
        ? { phase: 'idle' }
        : state
    case 'disposing':
      return state.phase === 'created' || state.phase === 'disposing'
        ? state
        : { phase: 'disposing' }
    case 'disposed':
      return state.phase === 'disposing' ? { phase: 'created' } : state
  }
}
