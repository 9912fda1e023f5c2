import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js'
import type {
  ClientCapabilities,
  CreateMessageRequest,
  CreateMessageResult,
  ElicitRequest,
  ElicitResult,
  Root,
} from '@modelcontextprotocol/sdk/types.js'
import type { SessionScope } from './session-scope.ts'

export interface HandlerContext {
  /** Aborts when the server no longer waits. */
  readonly signal: AbortSignal
  /** Whose session it is that the server asks in: principal, thread and run, as far as they were given. */
  readonly scope: SessionScope | undefined
}

/**
 * What a server may ask of this client while it serves a call. A handler that is given is declared as a
 * capability; a server must not ask for anything else. The same handlers serve every session.
 */
export interface ClientHandlers {
  /** Asks the user: by a form (`mode` absent or `form`), or by a page to visit (`mode: 'url'`). */
  readonly elicitation?:
    | ((
        params: ElicitRequest['params'],
        context: HandlerContext,
      ) => ElicitResult | Promise<ElicitResult>)
    | undefined
  /** Asks the host's model. */
  readonly sampling?:
    | ((
        params: CreateMessageRequest['params'],
        context: HandlerContext,
      ) => CreateMessageResult | Promise<CreateMessageResult>)
    | undefined
  /** The folders that a server may look at. */
  readonly roots?:
    | ((context: HandlerContext) => readonly Root[] | Promise<readonly Root[]>)
    | undefined
}

/** What a client with these handlers tells the server of itself. */
export function capabilitiesOf(
  handlers: ClientHandlers,
  declared: ClientCapabilities = {},
): ClientCapabilities {
  return {
    ...(handlers.elicitation === undefined ? {} : { elicitation: { form: {}, url: {} } }),
    ...(handlers.sampling === undefined ? {} : { sampling: {} }),
    ...(handlers.roots === undefined ? {} : { roots: {} }),
    ...declared,
  }
}

/** Lets the client of a session, which is of `scope`, answer with the handlers. */
export function installHandlers(
  client: Client,
  handlers: ClientHandlers,
  scope: SessionScope | undefined,
): void {
  const { elicitation, sampling, roots } = handlers
  if (elicitation !== undefined) {
    client.setRequestHandler(ElicitRequestSchema, ({ params }, { signal }) =>
      elicitation(params, { signal, scope }),
    )
  }
  if (sampling !== undefined) {
    client.setRequestHandler(CreateMessageRequestSchema, ({ params }, { signal }) =>
      sampling(params, { signal, scope }),
    )
  }
  if (roots !== undefined) {
    client.setRequestHandler(ListRootsRequestSchema, async (_request, { signal }) => ({
      roots: [...(await roots({ signal, scope }))],
    }))
  }
}
