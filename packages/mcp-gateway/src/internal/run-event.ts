/** An event of a run, for logs, metrics and the audit. It holds no text, argument or answer. */
export type RunEvent =
  | ({ readonly type: 'started' } & RunNames)
  | ({
      readonly type: 'ended'
      readonly outcome: 'done' | 'asked' | RunFailureReason
      readonly durationMs: number
      /** Tokens of the execution, also of one that failed or asked. `undefined`: no model reported any. */
      readonly usage?: readonly ModelUsage[] | undefined
    } & RunNames)
  /** Details of a failure, which the caller does not get. */
  | ({
      readonly type: 'failed'
      readonly error: unknown
      /** W3C trace id, if the call has a trace. */
      readonly traceId?: string | undefined
    } & RunNames)
  /** A file of the agent could not be stored. The run goes on without it. */
  | ({ readonly type: 'file-lost'; readonly error: unknown } & RunNames)
  /** The agent finished, and left nothing that its caller could get. */
  | ({ readonly type: 'empty' } & RunNames)
  /** The agent did not stop when it was cancelled, and may still cause costs. */
  | ({ readonly type: 'orphaned' } & RunNames)

/** Tokens that a model has used, as it reports them. */
export interface ModelUsage {
  /** @default unknown */
  readonly model?: string | undefined
  readonly inputTokens: number
  readonly outputTokens: number
}

export interface RunNames {
  readonly runId: string
  readonly tool: string
  readonly agentId: string
  readonly skillId: string
  readonly principal: string
}

/** Reason for which a run has no answer: `_meta.reason` of the result. Stable, because clients switch on it. */
export type RunFailureReason =
  | 'agent_failed' // it reported a failure, or threw an error
  | 'agent_gone' // it left while the call waited for it
  | 'auth_required' // a person must sign in elsewhere first
  | 'already_answered' // the question has another answer already
  | 'busy' // too many runs; `_meta.retryAfterMs` says when to come back
  | 'cancelled' // by the gateway, by the client, or by the server of the agent
  | 'expired' // the question expired, or was not a question to this caller
  | 'invalid_arguments' // also: other arguments than those of the continued run
  | 'invalid_output' // the output does not match the schema of the agent
  | 'no_room' // for a file of the agent: its caller has too many files
  | 'needs_input' // the agent asks questions; they are in `structuredContent` or the text
  | 'outcome_unknown' // the process of the run died: the call may have been executed, and is not repeated
  | 'timeout' // the run took too long
  | 'too_many_questions' // the agent asked again and again, or the answers never fitted
  | 'too_large' // something that the agent made or was to read exceeds a limit
  | 'unavailable' // the store cannot be reached
