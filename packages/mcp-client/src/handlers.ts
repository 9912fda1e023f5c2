import {
  CreateMessageRequestSchema,
  CreateMessageResultSchema,
  ElicitRequestSchema,
  ElicitResultSchema,
  ErrorCode,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  McpError,
  PromptListChangedNotificationSchema,
  ResourceListChangedNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js'
import * as sdkTypes from '@modelcontextprotocol/sdk/types.js'
import type {
  ClientCapabilities,
  CreateMessageRequest,
  CreateMessageResult,
  CreateMessageResultWithTools,
  ElicitRequest,
  ElicitResult,
  LoggingMessageNotification,
  Notification,
  Root,
} from '@modelcontextprotocol/sdk/types.js'
import { TASKS_EXTENSION } from '@x/mcp-transport'
import { inContextOf, whyUnknown } from './session-calls.ts'
import type { MessageOrigin } from './session-calls.ts'
import type { ResultSchema, SessionClient } from './session-client.ts'
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

interface DeclaredHandlers {
  readonly handlers: ClientHandlers
  /** As the server got them. */
  readonly capabilities: ClientCapabilities
}

/**
 * Answers requests of the server with the handlers. Refuses questions that may belong to several calls, because the
 * wrong person could answer.
 */
export function installHandlers(
  client: SessionClient,
  { handlers, capabilities }: DeclaredHandlers,
  session: Session,
): void {
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
    const { elicitation: declared } = capabilities
    client.setRequestHandler(ElicitRequestSchema, async ({ method, params }, { signal }) => {
      assertDeclaredMode(params, declared)
      const given = await answer(method, signal, (context) => elicitation(params, context))
      const result = checkResult('elicitation', ElicitResultSchema, given)
      return declared?.form?.applyDefaults === true ? withDefaults(params, result) : result
    })
  }
  if (sampling !== undefined) {
    client.setRequestHandler(CreateMessageRequestSchema, async ({ method, params }, { signal }) => {
      const given = await answer(method, signal, (context) => sampling(params, context))
      const schema = (params.tools || params.toolChoice) && schemaWithTools()
      return checkResult('sampling', schema || CreateMessageResultSchema, given)
    })
  }
  if (roots !== undefined) {
    client.setRequestHandler(ListRootsRequestSchema, async ({ method }, { signal }) => ({
      roots: [...(await answer(method, signal, roots))],
    }))
  }
}

/** @throws McpError for a kind of question that the client did not declare. `elicitation: {}` declares forms. */
function assertDeclaredMode(
  { mode = 'form' }: ElicitRequest['params'],
  declared: ClientCapabilities['elicitation'] = {},
): void {
  const isDeclared = declared[mode] !== undefined || (mode === 'form' && declared.url === undefined)
  if (isDeclared) return
  const message = `Client does not support ${mode} elicitation requests`
  throw new McpError(ErrorCode.InvalidParams, message)
}

/** Adds the defaults of fields that the user left out. The fields of a form are primitive (2025-11-25, elicitation). */
function withDefaults(params: ElicitRequest['params'], result: ElicitResult): ElicitResult {
  if (result.action !== 'accept' || !('requestedSchema' in params)) return result
  const fields = Object.entries(params.requestedSchema.properties)
  const defaults = fields.flatMap(([name, field]) =>
    field.default === undefined ? [] : [[name, field.default] as const],
  )
  return { ...result, content: { ...Object.fromEntries(defaults), ...result.content } }
}

/** The schema of a result that may use tools. Absent in older versions of the SDK. */
function schemaWithTools(): ResultSchema<CreateMessageResultWithTools> | undefined {
  return sdkTypes.CreateMessageResultWithToolsSchema
}

/** @throws McpError for a result of a handler that must not be sent */
function checkResult<T>(method: string, schema: ResultSchema<T>, result: unknown): T {
  try {
    return schema.parse(result)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new McpError(ErrorCode.InvalidParams, `Invalid ${method} result: ${reason}`)
  }
}

/** Emits notifications of the server as events of the session. Ignores unknown notifications. */
export function forwardNotifications(client: SessionClient, session: Session): void {
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
