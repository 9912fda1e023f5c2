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

export interface RunFailureOptions extends ErrorOptions {
  readonly retryAfterMs?: number | undefined
}

/** A run that ends without an answer. The message is for the caller: it holds no detail of what went wrong inside. */
export class RunFailure extends Error {
  override readonly name = 'RunFailure'
  readonly reason: RunFailureReason
  readonly retryAfterMs: number | undefined

  constructor(reason: RunFailureReason, message: string, options: RunFailureOptions = {}) {
    super(message, options)
    this.reason = reason
    this.retryAfterMs = options.retryAfterMs
  }
}
