import { randomUUID } from 'node:crypto'
import { CreateMessageRequestSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import type { ClientHandlers, HandlerContext } from '@x/mcp-client'
import type { Question } from './call-outcome.ts'

/** Whether a question is for a person, not for this program. */
export function isForPerson({ method }: Question): boolean {
  return method === 'elicitation/create'
}

/**
 * The answer of a handler to a question that came as data. Undefined where there is no handler for it.
 *
 * @throws what the handler throws; ZodError for a question that is none
 */
export async function ownAnswer(
  { method, params }: Question,
  handlers: ClientHandlers,
  context: HandlerContext,
): Promise<unknown> {
  const { elicitation, sampling, roots } = handlers
  if (method === 'elicitation/create' && elicitation !== undefined) {
    // The revision that asks by data has no such id; handlers are written for the one that has.
    const withId = params?.['mode'] === 'url' ? { elicitationId: randomUUID(), ...params } : params
    return elicitation(ElicitRequestSchema.parse({ method, params: withId }).params, context)
  }
  if (method === 'sampling/createMessage' && sampling !== undefined) {
    return sampling(CreateMessageRequestSchema.parse({ method, params }).params, context)
  }
  if (method === 'roots/list' && roots !== undefined) return { roots: [...(await roots(context))] }
  return undefined
}
