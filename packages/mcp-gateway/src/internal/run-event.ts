/** What happens to runs: for logs, metrics and the audit. No text, no argument and no answer is in it. */
export type RunEvent =
  | ({ readonly type: 'started' } & RunNames)
  | ({
      readonly type: 'ended'
      readonly outcome: 'done' | 'asked' | RunFailureReason
      readonly durationMs: number
    } & RunNames)
  /** Details of a failure, which the caller does not get. */
  | ({
      readonly type: 'failed'
      readonly error: unknown
      /** W3C trace id, if the call has a trace. */
      readonly traceId?: string | undefined
    } & RunNames)
  /** It was told to stop and did not: it may still be spending. */
  | ({ readonly type: 'orphaned' } & RunNames)

export interface RunNames {
  readonly runId: string
  readonly tool: string
  readonly agentId: string
  readonly skillId: string
  readonly principal: string
}

/** Why a run gave no answer: `_meta.reason` of the result. Stable: clients switch on it. */
export type RunFailureReason =
  | 'agent_failed' // it said so, or threw
  | 'agent_gone' // it left since the tool was listed
  | 'auth_required' // somebody has to sign in elsewhere first
  | 'already_answered' // the question was answered before, and otherwise
  | 'busy' // too many runs; `_meta.retryAfterMs` says when to come back
  | 'cancelled' // by the gateway, by the client, or where the agent runs
  | 'expired' // it waited too long for an answer, or never waited for this caller
  | 'idle_timeout' // no word from the agent for too long
  | 'invalid_arguments' // or others than those of the run that is continued
  | 'invalid_output' // what the agent gave does not match its own schema
  | 'no_room' // for a file that the agent needs to keep: its caller has too many
  | 'needs_input' // it asks something; `structuredContent` or the text says what
  | 'outcome_unknown' // the process that ran it died: it may have been executed, and is not made again
  | 'timeout' // took too long
  | 'too_large' // something that it made, or was to read, is larger than a limit allows
  | 'unavailable' // the store cannot be reached, or runs of the agent are refused because it kept failing
