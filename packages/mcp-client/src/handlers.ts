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
  ResultSchema as AnyResultSchema,
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
  Root,
} from '@modelcontextprotocol/sdk/types.js'
import { isRecord, TASKS_EXTENSION } from '@x/internal'
import { InputFailure } from './errors.ts'
import type { Answer, CallHandlers, JsonRpcNotification, ServerRequest } from '@x/mcp-transport'
import type { ResultSchema } from './requests.ts'
import { inContextOf, whyUnknown } from './session-calls.ts'
import type { MessageOrigin, TrackedCall } from './session-calls.ts'
import type { SessionScope } from './session-scope.ts'
import type { ScopeSlot } from './scope-slot.ts'

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

/** Returns the capabilities that a client with these handlers declares. Servers with sessions ignore the extension of tasks. */
export function toCapabilities(
  handlers: ClientHandlers,
  declared: ClientCapabilities = {},
): ClientCapabilities {
  return {
    ...(handlers.elicitation === undefined ? {} : { elicitation: { form: {}, url: {} } }),
    ...(handlers.sampling === undefined ? {} : { sampling: {} }),
    ...(handlers.roots === undefined ? {} : { roots: {} }),
    ...declared,
    extensions: { [TASKS_EXTENSION]: {}, ...declared.extensions },
  }
}

/** Handlers of what the server sends, for the messages on the response stream of `call`; without it, for all others. */
export function messageHandlers(slot: ScopeSlot, call?: TrackedCall): CallHandlers {
  return {
    onServerRequest: (request) => void answer(request, slot, call),
    onNotification: (notification) => {
      try {
        forward(notification, slot, call)
      } catch (error) {
        slot.log('warning', `${notification.method} of the server is ignored`, error)
      }
    },
  }
}

async function answer(
  request: ServerRequest,
  slot: ScopeSlot,
  call: TrackedCall | undefined,
): Promise<void> {
  let response: Answer
  try {
    response = { result: await resultOf(request, slot, call) }
  } catch (error) {
    if (call !== undefined && error instanceof InputFailure) call.inputFailure ??= error
    response = { error: toServerError(error) }
  }
  if (request.signal.aborted) return // the server no longer waits
  await request
    .respond(response)
    .catch((error: unknown) =>
      slot.log('warning', `the answer to ${request.method} was not sent`, error),
    )
}

/**
 * Has a handler answer. Refuses questions that may belong to several calls, because the wrong person could answer.
 *
 * @throws McpError for a request without a handler, or with parameters that do not fit its method; InputFailure for a
 * handler that fails, or whose answer does not fit
 */
async function resultOf(
  { method, params, signal }: ServerRequest,
  slot: ScopeSlot,
  call: TrackedCall | undefined,
): Promise<Record<string, unknown>> {
  const { server, scope, handlers, capabilities } = slot
  const { elicitation, sampling, roots } = handlers
  const ask = async <T>(
    handler: keyof ClientHandlers,
    schema: ResultSchema<T>,
    handle: (context: HandlerContext) => unknown,
  ): Promise<T> => {
    const origin = slot.calls?.originOf(call, slot.session)
    const context = { signal, scope, server, origin }
    if (origin?.call === undefined && origin !== undefined && method !== 'roots/list') {
      throw slot.decline(method, whyUnknown(origin))
    }
    try {
      const answered =
        origin === undefined ? handle(context) : inContextOf(origin, () => handle(context))
      return valid(schema, await answered, method)
    } catch (cause) {
      throw new InputFailure(handler, cause)
    }
  }
  if (method === 'ping') return {}
  if (method === 'elicitation/create' && elicitation !== undefined) {
    const given = valid(ElicitRequestSchema, { method, params }, method).params
    const asked: ElicitRequest['params'] = given.mode === 'url' ? given : { ...given, mode: 'form' }
    assertMode(asked.mode, capabilities)
    const result = await ask('elicitation', ElicitResultSchema, (context) =>
      elicitation(asked, context),
    )
    return withDefaults(result, asked, capabilities)
  }
  if (method === 'sampling/createMessage' && sampling !== undefined) {
    const asked = valid(CreateMessageRequestSchema, { method, params }, method).params
    const hasTools = asked.tools !== undefined || asked.toolChoice !== undefined
    const schema = (hasTools ? schemaWithTools() : undefined) ?? CreateMessageResultSchema
    return ask<Record<string, unknown>>('sampling', schema, (context) => sampling(asked, context))
  }
  if (method === 'roots/list' && roots !== undefined) {
    valid(ListRootsRequestSchema, { method, params }, method)
    return ask('roots', AnyResultSchema, async (context) => ({
      roots: [...(await roots(context))],
    }))
  }
  throw new McpError(ErrorCode.MethodNotFound, `This client has no handler for ${method}`)
}

/** The schema of a result that may use tools. Absent in older versions of the SDK. */
function schemaWithTools(): ResultSchema<CreateMessageResultWithTools> | undefined {
  return sdkTypes.CreateMessageResultWithToolsSchema
}

/** @throws McpError if a request or a result does not fit its schema */
function valid<T>(schema: ResultSchema<T>, value: unknown, method: string): T {
  try {
    return schema.parse(value)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new McpError(ErrorCode.InvalidParams, `Invalid ${method}: ${why}`)
  }
}

/** @throws McpError for a mode of elicitation that the client does not declare (2025-11-25, elicitation) */
function assertMode(
  mode: 'form' | 'url' | undefined,
  { elicitation = {} }: ClientCapabilities,
): void {
  const isDeclared =
    mode === 'url'
      ? elicitation.url !== undefined
      : elicitation.form !== undefined || elicitation.url === undefined
  if (isDeclared) return
  throw new McpError(
    ErrorCode.InvalidParams,
    `This client does not support elicitation of mode ${mode}`,
  )
}

/** Adds the defaults of a form to an accepted answer, if the client declares `applyDefaults` (SEP-1034). */
function withDefaults(
  result: ElicitResult,
  asked: ElicitRequest['params'],
  { elicitation }: ClientCapabilities,
): Record<string, unknown> {
  const form = elicitation?.form
  const applies = isRecord(form) && form['applyDefaults'] === true
  if (!applies || result.action !== 'accept' || !('requestedSchema' in asked)) return result
  const fields = Object.entries(asked.requestedSchema.properties).flatMap(([name, schema]) =>
    'default' in schema && schema.default !== undefined ? [[name, schema.default] as const] : [],
  )
  return { ...result, content: { ...Object.fromEntries(fields), ...result.content } }
}

/** A handler chooses what the server reads by the error that it throws, such as an `McpError`. */
function toServerError(given: unknown): Extract<Answer, { error: unknown }>['error'] {
  const chosen: unknown = given instanceof InputFailure ? given.cause : given
  const error = isRecord(chosen) && Number.isSafeInteger(chosen['code']) ? chosen : given
  const { code, message, data } = isRecord(error) ? error : {}
  return {
    code: Number.isSafeInteger(code) ? Number(code) : ErrorCode.InternalError,
    message: typeof message === 'string' ? message : 'Internal error',
    ...(data === undefined ? {} : { data }),
  }
}

/** @throws ZodError for a notification with parameters that do not fit its method */
function forward(
  notification: JsonRpcNotification,
  slot: ScopeSlot,
  call: TrackedCall | undefined,
): void {
  const { server, events, calls } = slot
  switch (notification.method) {
    case 'notifications/tools/list_changed':
      ToolListChangedNotificationSchema.parse(notification)
      slot.invalidateTools()
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
      const origin = calls?.originOf(call, slot.session)
      return events.emit('serverLog', { level, logger, data, origin })
    }
  }
}
