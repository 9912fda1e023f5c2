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
import { inContextOf } from './session-calls.ts'
import type { MessageOrigin, SessionCalls } from './session-calls.ts'
import type { SessionScope } from './session-scope.ts'

export interface HandlerContext {
  /** Aborts when the server no longer waits. */
  readonly signal: AbortSignal
  /** Whose session it is that the server asks in: principal, thread and run, as far as they were given. */
  readonly scope: SessionScope | undefined
  /** The server that asks, as errors name it. */
  readonly server?: string | undefined
  /**
   * What is known about the call that the server asks for. A handler that answers for one of several people
   * must decline where `origin.call` is undefined.
   */
  readonly origin?: MessageOrigin | undefined
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

/** What handlers are told about a session, and what says which call a question belongs to. */
export interface AskedSession {
  readonly scope: SessionScope | undefined
  /** How messages name the server. */
  readonly server: string
  readonly calls: SessionCalls | undefined
}

/** Lets the client of a session answer with the handlers. */
export function installHandlers(
  client: Client,
  handlers: ClientHandlers,
  { scope, server, calls }: AskedSession,
): void {
  const { elicitation, sampling, roots } = handlers
  const answer = <T>(signal: AbortSignal, handle: (context: HandlerContext) => T): T => {
    const origin = calls?.originOf(client)
    const context = { signal, scope, server, origin }
    return origin === undefined ? handle(context) : inContextOf(origin, () => handle(context))
  }
  if (elicitation !== undefined) {
    client.setRequestHandler(ElicitRequestSchema, ({ params }, { signal }) =>
      answer(signal, (context) => elicitation(params, context)),
    )
  }
  if (sampling !== undefined) {
    client.setRequestHandler(CreateMessageRequestSchema, ({ params }, { signal }) =>
      answer(signal, (context) => sampling(params, context)),
    )
  }
  if (roots !== undefined) {
    client.setRequestHandler(ListRootsRequestSchema, async (_request, { signal }) => ({
      roots: [...(await answer(signal, roots))],
    }))
  }
}
