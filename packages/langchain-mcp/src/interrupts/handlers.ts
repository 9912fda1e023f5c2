import { CreateMessageRequestSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import type { ClientHandlers, HandlerContext } from '@x/mcp-client'
import type { InputRequest } from '@x/mcp-transport'
import { randomUUID } from 'node:crypto'
import type { ToolLog } from '../base/log.ts'

/** Handlers that answer servers without an interrupt. */
export interface OwnHandlers extends ClientHandlers {
  readonly elicitation: NonNullable<ClientHandlers['elicitation']>
}

/** Returns the caller's handlers. Without a handler for elicitation, questions are declined with a warning. */
export function ownHandlersFrom(
  { elicitation, sampling, roots }: ClientHandlers,
  log: ToolLog,
): OwnHandlers {
  const decline = (): { readonly action: 'decline' } => {
    log({
      level: 'warning',
      code: 'NOBODY_ASKED',
      message:
        'An MCP server asked a question for a person, and it was declined because nobody answers here. A graph can be interrupted if it has a checkpointer and each of its tasks makes one call: use createAgent() or fanOutToolCalls().',
      server: 'unnamed',
    })
    return { action: 'decline' }
  }
  return { elicitation: elicitation ?? decline, sampling, roots }
}

/** Returns true for a question to a person. */
export function isForPerson({ method }: InputRequest): boolean {
  return method === 'elicitation/create'
}

/**
 * Returns the answer of a handler, or undefined without a handler for the question.
 *
 * @throws the error of the handler; ZodError for an invalid question
 */
export async function ownAnswer(
  { method, params }: InputRequest,
  handlers: ClientHandlers,
  context: HandlerContext,
): Promise<unknown> {
  const { elicitation, sampling, roots } = handlers
  if (method === 'elicitation/create' && elicitation !== undefined) {
    // Revision 2026-07-28 has no such id, but handlers expect one.
    const withId = params?.['mode'] === 'url' ? { elicitationId: randomUUID(), ...params } : params
    return elicitation(ElicitRequestSchema.parse({ method, params: withId }).params, context)
  }
  if (method === 'sampling/createMessage' && sampling !== undefined) {
    return sampling(CreateMessageRequestSchema.parse({ method, params }).params, context)
  }
  if (method === 'roots/list' && roots !== undefined) return { roots: [...(await roots(context))] }
  return undefined
}
