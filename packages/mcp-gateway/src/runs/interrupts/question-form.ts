import type { JsonSchema } from '../../agents/agent.ts'

/** A question as a client can show it: a flat form, whatever shape the agent wants its answer in. */
export interface QuestionForm {
  /** Names its answer among those of a round: `i0`, `i1`, … */
  readonly key: string
  readonly message: string
  /** An object of strings, numbers, booleans and choices, as forms allow it (specification 2026-07-28, "Elicitation"). */
  readonly requestedSchema: FormSchema
}

export interface FormSchema {
  readonly type: 'object'
  readonly properties: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[] | undefined
}
