import type { Server, Transport } from '@modelcontextprotocol/server'

/**
 * Whose clients a server is for: those with sessions, those of the same revisions that are served without one, or
 * those of revision 2026-07-28.
 */
export type Era = 'legacy' | 'stateless' | 'modern'

/** Makes what answers behind the legs of a gateway: a server for each request or session, shared by nobody. */
export interface ServerMaker {
  /** How many were made. */
  readonly made: number
  /** @param method the only one that will be asked for, where that is known. @default any */
  create(era: Era, method?: string | null): Server
  /**
   * One for a single `tools/call` of revision 2026-07-28, which says nothing before its answer unless it is asked to.
   *
   * @default there is none
   */
  createForCall?(): Server
  /**
   * One for a session.
   *
   * @param transport that it is connected with next
   */
  createFor(transport: Transport): Server
}
