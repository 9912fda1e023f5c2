import type { JsonSchema } from './agent.ts'
import type { OutputFile } from '../files/result-files.ts'

/** One update of a run. All kinds of agents have the same updates. */
export type AgentUpdate =
  /** The next piece of the answer. */
  | { readonly type: 'text'; readonly text: string }
  /** One short line about what the agent does now. */
  | { readonly type: 'status'; readonly text: string }
  | { readonly type: 'file'; readonly file: OutputFile }
  | FinalUpdate

/** The end of a run. */
export type FinalUpdate =
  /** `text`: the whole answer, if it differs from the pieces. */
  | {
      readonly type: 'done'
      readonly text?: string | undefined
      readonly structured?: Readonly<Record<string, unknown>> | undefined
    }
  /** The run needs an answer of a person. `state` (JSON) continues it in any process that can reach the agent. */
  | { readonly type: 'asked'; readonly questions: readonly Question[]; readonly state: unknown }
  /**
   * The agent reports that it failed, or refuses. `reason` may be shown to the caller. `isCancelled`: the run was stopped
   * at the agent, which works. @default false
   */
  | {
      readonly type: 'failed'
      readonly reason: string
      readonly isCancelled?: boolean | undefined
    }
  /**
   * A person has to sign in at a web page first. `state` (JSON) continues the run after that; without it the caller
   * calls again. A continued run may ask again if nobody signed in.
   */
  | {
      readonly type: 'authorization'
      /** @default unknown */
      readonly url?: string | undefined
      readonly reason?: string | undefined
      readonly state?: unknown
    }

/** A question of a run. */
export interface Question {
  /** Unique within its run. */
  readonly id: string
  readonly message: string
  /** Schema of the answer, as the agent sent it. */
  readonly schema?: JsonSchema | undefined
  /** A page to visit instead of a form. The answer is only whether the person went there. */
  readonly url?: string | undefined
  /** The value of the agent behind `message`, for clients that know it. */
  readonly value?: unknown
  /** Whether the agent gets the answer if a person declines or cancels. Else that ends the run. @default false */
  readonly takesRefusal?: boolean | undefined
}

export function isFinal(update: AgentUpdate): update is FinalUpdate {
  return update.type !== 'text' && update.type !== 'status' && update.type !== 'file'
}
