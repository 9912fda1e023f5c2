import { inputRequired } from '@modelcontextprotocol/server'
import type {
  CallToolResult,
  ElicitRequestFormParams,
  InputRequest,
} from '@modelcontextprotocol/server'

import type { QuestionForm } from './question-form.ts'
import { handleOf } from './request-state.ts'
import type { WaitingRun } from './waiting-run.ts'

/** Returns the requests that put questions to the user of a client, by the keys of their answers. */
export function inputRequestsFor(
  forms: readonly QuestionForm[],
): Readonly<Record<string, InputRequest>> {
  return Object.fromEntries(
    forms.map(({ key, message, requestedSchema, url }) => [
      key,
      url === undefined
        ? inputRequired.elicit({ message, requestedSchema: wireSchemaOf(requestedSchema) })
        : inputRequired.elicitUrl({ message, url }),
    ]),
  )
}

/** Questions for a client that cannot ask a person: the model reads them, and calls again with `resume`. */
export function needsInputResult(
  run: WaitingRun,
  forms: readonly QuestionForm[],
  { hasOutputSchema }: { readonly hasOutputSchema: boolean },
): CallToolResult {
  const questions = forms.map(({ key, message, requestedSchema }) => ({
    key,
    message,
    schema: requestedSchema,
  }))
  const handle = handleOf(run)
  const example = Object.fromEntries(forms.map(({ key }) => [key, {}]))
  const lines = [
    'The agent has a question before it can go on:',
    ...questions.map(({ key, message, schema }) => `${key}: ${message}\n${JSON.stringify(schema)}`),
    `Ask the user, then call this tool again with \`resume\`: ${JSON.stringify({ run: handle, answers: example })}, each answer filled in by its schema, or {"action":"decline"} where the user does not want to answer.`,
  ]
  return {
    content: [{ type: 'text', text: lines.join('\n') }, ...(run.files?.blocks ?? [])],
    // A tool with an output schema may give nothing else as structured content, unless it is an error.
    ...(hasOutputSchema
      ? { isError: true }
      : { structuredContent: { status: 'needs_input', run: handle, questions } }),
    _meta: { reason: 'needs_input', runId: run.runId },
  }
}

type WireSchema = ElicitRequestFormParams['requestedSchema']

/** The fields were brought into this shape by `formOf`, which the SDK checks once more. */
function wireSchemaOf({ properties, required }: QuestionForm['requestedSchema']): WireSchema {
  return {
    type: 'object',
    // eslint-disable-next-line typescript/no-unsafe-type-assertion -- made by `formFieldFrom`, key by key
    properties: properties as WireSchema['properties'],
    ...(required !== undefined && { required: [...required] }),
  }
}
