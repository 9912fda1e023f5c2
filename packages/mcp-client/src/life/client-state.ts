import type { Epoch } from './epoch.ts'

/** The life of a client. One place changes it (`nextState`), and every change is an event. */
export type ClientState =
  /** Nothing is open: as new. */
  | { readonly phase: 'created' }
  /** Phase 1: finding the server, making the dispatcher and the store. */
  | { readonly phase: 'connecting' }
  /** Phase 2: the MCP handshake, the first of this life or a later one. */
  | { readonly phase: 'handshaking'; readonly isFirst: boolean }
  | { readonly phase: 'active'; readonly epoch: Epoch }
  /** Phase 1 stands, but there is no session; the next operation opens one. */
  | { readonly phase: 'idle' }
  | { readonly phase: 'disposing' }

export type ClientEvent =
  /** An operation needs a session. */
  | { readonly type: 'needed' }
  /** Phase 1 is done. */
  | { readonly type: 'connected' }
  /** Phase 2 is done. */
  | { readonly type: 'opened'; readonly epoch: Epoch }
  /** The phase in progress did not succeed. */
  | { readonly type: 'failed' }
  /** The server refused the session, or the connection is over. */
  | { readonly type: 'ended'; readonly epoch: Epoch }
  | { readonly type: 'disposing' }
  | { readonly type: 'disposed' }

/** The whole life of a client on one screen. Pure: I/O lives in `McpClient`. An event that does not fit changes nothing. */
export function nextState(state: ClientState, event: ClientEvent): ClientState {
  switch (event.type) {
    case 'needed':
      if (state.phase === 'created') return { phase: 'connecting' }
      return state.phase === 'idle' ? { phase: 'handshaking', isFirst: false } : state
    case 'connected':
      return state.phase === 'connecting' ? { phase: 'handshaking', isFirst: true } : state
    case 'opened':
      return state.phase === 'handshaking' ? { phase: 'active', epoch: event.epoch } : state
    case 'failed':
      if (state.phase === 'connecting') return { phase: 'created' }
      if (state.phase !== 'handshaking') return state
      return state.isFirst ? { phase: 'created' } : { phase: 'idle' }
    case 'ended':
      // News of an older session comes too late: it must not tear down the one that replaced it.
      return state.phase === 'active' && state.epoch === event.epoch ? { phase: 'idle' } : state
    case 'disposing':
      return state.phase === 'created' || state.phase === 'disposing'
        ? state
        : { phase: 'disposing' }
    case 'disposed':
      return state.phase === 'disposing' ? { phase: 'created' } : state
  }
}
