/** What came of looking at the arguments of a call. */
export type ArgumentCheck =
  | { readonly ok: true; readonly arguments: CheckedArguments }
  /** For the model: which part is wrong, and how. The answer is a tool error, no protocol error. */
  | { readonly ok: false; readonly complaint: string }

/** Arguments of a call, taken apart. */
export interface CheckedArguments {
  /** For the agent; absent only where `resume` came alone. */
  readonly input?: CheckedInput | undefined
  /** URIs of artifacts; not looked up yet. */
  readonly files: readonly string[]
  readonly resume?: ResumeArgument | undefined
  /** Where artifacts go; a handle of an earlier call. */
  readonly scope?: string | undefined
  readonly idempotencyKey?: string | undefined
}

export type CheckedInput =
  | { readonly kind: 'message'; readonly text: string }
  | { readonly kind: 'arguments'; readonly value: Readonly<Record<string, unknown>> }

/** Continues a run that asked, where the client cannot be asked itself. */
export interface ResumeArgument {
  readonly run: string
  /** By the key of the question. */
  readonly answers: Readonly<Record<string, unknown>>
}
