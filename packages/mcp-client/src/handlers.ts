import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  PromptListChangedNotificationSchema,
  ResourceListChangedNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js'
import type {
  ClientCapabilities,
  CreateMessageRequest,
  CreateMessageResult,
  ElicitRequest,
  ElicitResult,
  LoggingMessageNotification,
  Notification,
  Root,
} from '@modelcontextprotocol/sdk/types.js'
import { TASKS_EXTENSION } from '@x/mcp-transport'
import { inContextOf, whyUnknown } from './session-calls.ts'
import type { MessageOrigin } from './session-calls.ts'
import type { SessionScope } from './session-scope.ts'
import type { Session } from './session.ts'

export interface HandlerContext {
  /** Aborts when the server no longer waits for the answer. */
  readonly signal: AbortSignal
  /** Scope of the session that the request came in: principal, thread and run, as far as they are set. */
  readonly scope: SessionScope | undefined
  /** Name of the server, as in error messages. */
  readonly server: string
  /** The call that caused the request. `origin.call` is undefined only for `roots`, which need not belong to a call. */
  readonly origin: MessageOrigin | undefined
}

/** A log message of the server. */
export interface ServerLog {
  readonly level: LoggingMessageNotification['params']['level']
  readonly logger: string | undefined
  readonly data: unknown
  /** The call that caused the message, as far as it is known. Only for clients with `handlers`. */
  readonly origin: MessageOrigin | undefined
}

/**
 * Handlers for requests that the server sends while it serves a call. The client declares a capability for each
 * handler; the server must not send other requests. The same handlers serve every session.
 */
export interface ClientHandlers {
  /** Asks the user to fill in a form (`mode` absent or `form`) or to visit a page (`mode: 'url'`). */
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
  /** Returns the folders that the server may access. */
  readonly roots?:
    | ((context: HandlerContext) => readonly Root[] | Promise<readonly Root[]>)
    | undefined
}

/** Returns the capabilities that a client with these handlers declares. Servers with sessions ignore the extension. */
export function toCapabilities(
  handlers: ClientHandlers,
  declared: ClientCapabilities = {},
): ClientCapabilities {
  return {
    ...(handlers.elicitation === undefined ? {} : { elicitation: { form: {}, url: {} } }),
    ...(handlers.sampling === undefined ? {} : { sampling: {} }),
    ...(handlers.roots === undefined ? {} : { roots: {} }),
    extensions: { [TASKS_EXTENSION]: {} },
    ...declared,
  }
}

/**
 * Answers requests of the server with the handlers. Refuses questions that may belong to several calls, because the
 * wrong person could answer.
 */
export function installHandlers(client: Client, handlers: ClientHandlers, session: Session): void {
  const { server, scope } = session
  const { elicitation, sampling, roots } = handlers
  const answer = <T>(
    method: string,
    signal: AbortSignal,
    handle: (context: HandlerContext) => T,
  ): T => {
    const origin = session.calls?.originOf(session.generation)
    const context = { signal, scope, server, origin }
    if (origin === undefined) return handle(context)
    if (origin.call === undefined && method !== 'roots/list') {
      throw session.decline(method, whyUnknown(origin))
    }
    return inContextOf(origin, () => handle(context))
  }
  if (elicitation !== undefined) {
    client.setRequestHandler(ElicitRequestSchema, ({ method, params }, { signal }) =>
      answer(method, signal, (context) => elicitation(params, context)),
    )
  }
  if (sampling !== undefined) {
    client.setRequestHandler(CreateMessageRequestSchema, ({ method, params }, { signal }) =>
      answer(method, signal, (context) => sampling(params, context)),
    )
  }
  if (roots !== undefined) {
    client.setRequestHandler(ListRootsRequestSchema, async ({ method }, { signal }) => ({
      roots: [...(await answer(method, signal, roots))],
    }))
  }
}

/** Emits notifications of the server as events of the session. Ignores unknown notifications. */
export function forwardNotifications(client: Client, session: Session): void {
  // One handler for all, because one handler for each makes the SDK's client a fifth larger.
  client.fallbackNotificationHandler = async (notification) => forward(notification, session)
}

/** @throws ZodError for a notification with parameters that do not fit its method */
function forward(notification: Notification, session: Session): void {
  const { server, events, calls } = session
  switch (notification.method) {
    case 'notifications/tools/list_changed':
      ToolListChangedNotificationSchema.parse(notification)
      session.invalidateTools()
      return events.emit('toolListChanged', { server })
    case 'notifications/prompts/list_changed':
      PromptListChangedNotificationSchema.parse(notification)
      return events.emit('promptsChanged', { server })
    case 'notifications/resources/list_changed':
      ResourceListChangedNotificationSchema.parse(notification)
      return events.emit('resourcesChanged', { server })
    case 'notifications/resources/updated': {
      const { params } = ResourceUpdatedNotificationSchema.parse(notification)
      return events.emit('resourceUpdated', { uri: params.uri })
    }
    case 'notifications/message': {
      const { level, logger, data } = LoggingMessageNotificationSchema.parse(notification).params
      const origin = calls?.originOf(session.generation)
      return events.emit('serverLog', { level, logger, data, origin })
    }
  }
}
