import type { Principal } from '../internal/principal.ts'
import type { AgentArtifacts, InputFile } from '../files/result-files.ts'

/** What an agent is asked, and all that it may know of whoever asks. A fresh object for each call. */
export interface AgentCall {
  /** `run_` and 16 hex digits. */
  readonly runId: string
  readonly agentId: string
  readonly skillId: string
  readonly input: AgentInput
  readonly principal: Principal
  /**
   * Of the conversation that the call goes on with, a UUID: the agent knows what was said in it before, and keeps
   * it. @default the call stands for itself, and nothing is kept of it
   */
  readonly thread?: string | undefined
  /** Aborts when the caller gives up, a limit is reached, or the gateway stops. */
  readonly signal: AbortSignal
  /** W3C trace context of the caller, to be passed on. */
  readonly trace?: Readonly<Record<string, string>> | undefined
  /** Writes files of the run, beside those that come as updates, and reads files that the agent wrote before. */
  readonly artifacts: AgentArtifacts
  /** Continues a run that asked, instead of starting one. */
  readonly resume?: Resume | undefined
}

export type AgentInput =
  /** In the words of the caller. */
  | { readonly kind: 'message'; readonly text: string; readonly files: readonly InputFile[] }
  /** By the skill's own schema, against which they were checked. */
  | {
      readonly kind: 'arguments'
      readonly value: Readonly<Record<string, unknown>>
      readonly files: readonly InputFile[]
    }

export interface Resume {
  /** As the `asked` update gave it. JSON. */
  readonly state: unknown
  /** By the id of the question. */
  readonly answers: Readonly<Record<string, Answer>>
}

/** What a person did with a question (specification 2026-07-28, "ElicitResult"). */
export type Answer =
  | { readonly action: 'accept'; readonly content: Readonly<Record<string, unknown>> }
  | { readonly action: 'decline' | 'cancel' }
