import { AsyncLocalStorageProviderSingleton } from '@langchain/core/singletons'
import { CreateMessageRequestSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import type { ClientHandlers, HandlerContext } from '@x/mcp-client'
import { randomUUID } from 'node:crypto'
import { processWarnings, type ToolLog } from '../base/log.ts'
import type { Question } from './call-outcome.ts'

/** What answers servers without stopping anything. */
export interface OwnHandlers extends ClientHandlers {
  readonly elicitation: NonNullable<ClientHandlers['elicitation']>
}

/** Those of the caller. Where none is for people, servers are told so (`decline`), and the log says why. */
export function ownHandlersFrom({
  elicitation,
  sampling,
  roots,
  log = processWarnings,
}: ClientHandlers & { readonly log?: ToolLog | undefined }): OwnHandlers {
  const decline = (): { readonly action: 'decline' } => {
    log({
      level: 'warning',
      code: 'NOBODY_ASKED',
      message:
        'An MCP server asked for a person and was told that nobody answers. A graph can be stopped to ask where it has a checkpointer and each of its tasks makes one call: use createAgent() or fanOutToolCalls().',
      server: 'unnamed',
    })
    return { action: 'decline' }
  }
  return { elicitation: elicitation ?? decline, sampling: outsideOtherRuns(sampling), roots }
}

/**
 * The handler may call a model. Where it is not known for which call, it must not run in a run of LangChain:
 * the model would stream to a thread that the answer is not for.
 */
export function outsideOtherRuns(sampling: ClientHandlers['sampling']): ClientHandlers['sampling'] {
  if (sampling === undefined) return undefined
  const handler = sampling
  return function sample(params, context) {
    const { origin } = context
    if (origin === undefined || origin.call !== undefined) return handler(params, context)
    const storage = AsyncLocalStorageProviderSingleton.getInstance()
    return storage.run(undefined, () => handler(params, context))
  }
}

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
