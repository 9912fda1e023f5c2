/**
 * Owner of a session. Every key of a store or a cache contains the fields that are set; a session is never used
 * in another scope.
 */
export interface SessionScope {
  /** Stable name of the user or service that the credentials belong to. Not a token: a new token keeps the session. */
  readonly principal?: string | undefined
  /** A LangGraph thread. */
  readonly thread?: string | undefined
  /** One root agent invocation. In the option `scope` of a client, `current` stands for the run of each call. */
  readonly run?: string | undefined
}
