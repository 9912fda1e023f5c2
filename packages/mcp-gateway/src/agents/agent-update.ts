import type { JsonSchema } from './agent.ts'
import type { OutputFile } from '../files/result-files.ts'

/** What an agent says during a run, whichever kind of agent it is. */
export type AgentUpdate =
  /** The next piece of its answer, as it is written. */
  | { readonly type: 'text'; readonly text: string }
  /** What it does now: one short line. */
  | { readonly type: 'status'; readonly text: string }
  | { readonly type: 'file'; readonly file: OutputFile }
  | FinalUpdate

/** The end of a run. */
export type FinalUpdate =
  /** `text`: the whole answer, where it is not just what the pieces say. */
  | {
      readonly type: 'done'
      readonly text?: string | undefined
      readonly structured?: Readonly<Record<string, unknown>> | undefined
    }
  /** It cannot go on without a person. `state` (JSON) continues it, in any process that can reach the agent. */
  | { readonly type: 'asked'; readonly questions: readonly Question[]; readonly state: unknown }
  /**
   * The agent says itself that it failed or will not do it. `reason` may be shown to the caller. `isCancelled`:
   * somebody stopped it where it runs, and nothing is wrong with it. @default false
   */
  | {
      readonly type: 'failed'
      readonly reason: string
      readonly isCancelled?: boolean | undefined
    }
  /**
   * Somebody has to sign in elsewhere first, at a page of the web. `state` (JSON) continues the run then; without it
   * the run begins anew. Whoever continues it finds that nobody did may say the same again.
   */
  | {
      readonly type: 'authorization'
      /** @default it does not say where */
      readonly url?: string | undefined
      readonly reason?: string | undefined
      readonly state?: unknown
    }

/** One thing that a run wants to know. */
export interface Question {
  /** Unique within its run; answers are given by it. */
  readonly id: string
  readonly message: string
  /** Of the answer, as the agent gave it; any shape. */
  readonly schema?: JsonSchema | undefined
  /** A page to visit, instead of a form: the answer says only whether somebody went there. */
  readonly url?: string | undefined
  /** The agent's own value, for whoever knows more of it than `message` says. */
  readonly value?: unknown
  /** The agent wants to hear when a person declines or cancels; else that ends the run. @default false */
  readonly takesRefusal?: boolean | undefined
}

export function isFinal(update: AgentUpdate): update is FinalUpdate {
  return update.type !== 'text' && update.type !== 'status' && update.type !== 'file'
}
