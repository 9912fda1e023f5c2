import type { CallToolResult } from '@modelcontextprotocol/server'

import type { QuestionForm } from './interrupts/question-form.ts'
import type { RequestState } from './interrupts/request-state.ts'

/** How a call of a tool ended. */
export type ToolOutcome =
  /** With an answer, or with an error that the model can read (`isError`, `_meta.reason`). */
  | { readonly type: 'result'; readonly result: CallToolResult }
  /** It goes on when these are answered; `state` is to be sealed, and comes back with the answers. */
  | {
      readonly type: 'input'
      readonly forms: readonly QuestionForm[]
      readonly state: RequestState
    }
