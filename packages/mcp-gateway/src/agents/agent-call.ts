import type { Principal } from '../internal/principal.ts'
import type { AgentArtifacts, InputFile } from '../files/result-files.ts'

/** One call of an agent, and what the agent may know about the caller. A new object for each call. */
export interface AgentCall {
  /** `run_` and 16 hex digits. */
  readonly runId: string
  readonly agentId: string
  readonly skillId: string
  readonly input: AgentInput
  readonly principal: Principal
  /**
   * Conversation that the call continues, a UUID. The agent knows the earlier messages of it, and keeps the new ones.
   * @default no conversation, and nothing is kept
   */
  readonly thread?: string | undefined
  /** Aborts when the caller cancels, a limit is reached, or the gateway stops. */
  readonly signal: AbortSignal
  /** W3C trace context of the caller. Pass it on. */
  readonly trace?: Readonly<Record<string, string>> | undefined
  /** Writes files of the run, beside those that come as updates, and reads files that the agent wrote before. */
  readonly artifacts: AgentArtifacts
  /** Continues a run that asked, instead of starting one. */
  readonly resume?: Resume | undefined
}

export type AgentInput = CheckedInput & {
  /** Files of the caller. */
  readonly files: readonly InputFile[]
}

export type CheckedInput =
  /** Text of the caller. */
  | { readonly kind: 'message'; readonly text: string }
  /** Arguments that were checked with the schema of the skill. */
  | { readonly kind: 'arguments'; readonly value: Readonly<Record<string, unknown>> }

export interface Resume {
  /** The state of the `asked` update. JSON. */
  readonly state: unknown
  /** Answers by the ids of their questions. */
  readonly answers: Readonly<Record<string, Answer>>
}

/** Reaction of a person to a question (specification 2026-07-28, "ElicitResult"). */
export type Answer =
  | { readonly action: 'accept'; readonly content: Readonly<Record<string, unknown>> }
  | { readonly action: 'decline' | 'cancel' }
