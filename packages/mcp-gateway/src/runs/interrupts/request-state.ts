/** Which round of which run is answered. Ids only: clients can read it, but not change it. */
export interface RequestState {
  readonly runId: string
  /** From 1. Each is answered once. */
  readonly round: number
  readonly tool: string
  /** Hash of the arguments: a continued call is the same call. */
  readonly args: string
}
