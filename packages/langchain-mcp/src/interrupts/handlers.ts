import type { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { AIMessage, HumanMessage, SystemMessage, type BaseMessage } from '@langchain/core/messages'
import { AsyncLocalStorageProviderSingleton } from '@langchain/core/singletons'
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  McpError,
  type CreateMessageRequest,
  type CreateMessageResult,
} from '@modelcontextprotocol/sdk/types.js'
import { check, type Checks } from '@x/internal'
import type { ClientHandlers, HandlerContext } from '@x/mcp-client'
import type { InputRequest } from '@x/mcp-transport'
import { randomUUID } from 'node:crypto'
import type { ToolLog } from '../base/log.ts'
import { assertOptions } from '../base/options.ts'

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
  return { elicitation: elicitation ?? decline, sampling: outsideOtherRuns(sampling), roots }
}

/**
 * Runs a sampling handler outside the current run if its call is unknown. The handler may call a model,
 * which would stream to the wrong thread.
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

/** The params of `sampling/createMessage`. */
export type SamplingRequest = CreateMessageRequest['params']

export interface SamplingWithOptions {
  /**
   * Allows or refuses a request: the server does not pay for it, and reads the answer. May return another
   * request, which is used instead. `() => true` is for servers that you trust.
   */
  readonly approve: (
    request: SamplingRequest,
    context: HandlerContext,
  ) => boolean | SamplingRequest | Promise<boolean | SamplingRequest>
  /**
   * Returns options of the model for a request. Providers have different names for limits of tokens and
   * temperature. @default only `stop` and `signal`
   */
  readonly callOptions?:
    | ((request: SamplingRequest) => Readonly<Record<string, unknown>>)
    | undefined
}

const optionChecks: Checks<SamplingWithOptions & { model: unknown }> = {
  model: check.required({ ...check.methods('invoke'), takes: 'a chat model' }),
  approve: check.required(check.func),
  callOptions: check.func,
}

/** JSON-RPC code for a request that the user rejected, as in the example of the specification. */
const REJECTED = -1

/**
 * Returns a handler that answers sampling requests with a LangChain model, for `handlers.sampling` of a
 * client or `sampling` of `elicitationToInterrupt()`.
 *
 * @throws McpError from the handler, if the request is rejected
 * @throws {McpClientError} `CONFIG` for options that are unknown or have a wrong value
 */
export function samplingWith(
  model: BaseChatModel,
  options: SamplingWithOptions,
): NonNullable<ClientHandlers['sampling']> {
  assertOptions('samplingWith()', { model, ...options }, optionChecks)
  const { approve, callOptions } = options
  return async function sampling(asked, context): Promise<CreateMessageResult> {
    const verdict = await approve(asked, context)
    if (verdict === false) throw new McpError(REJECTED, 'The sampling request was rejected')
    const request = verdict === true ? asked : verdict
    const answer = await model.invoke(messagesFrom(request), {
      ...callOptions?.(request),
      ...(request.stopSequences !== undefined && { stop: request.stopSequences }),
      signal: context.signal,
    })
    return {
      role: 'assistant',
      model: modelNameOf(answer) ?? model.getName(),
      content: { type: 'text', text: answer.text },
      ...stopReasonOf(answer),
    }
  }
}

function messagesFrom({ messages, systemPrompt }: SamplingRequest): BaseMessage[] {
  const system = systemPrompt === undefined ? [] : [new SystemMessage(systemPrompt)]
  return [
    ...system,
    ...messages.map(({ role, content }) => {
      const blocks = (Array.isArray(content) ? content : [content]).map(contentBlockFrom)
      return role === 'assistant'
        ? new AIMessage({ content: blocks })
        : new HumanMessage({ content: blocks })
    }),
  ]
}

type McpBlock = Exclude<SamplingRequest['messages'][number]['content'], readonly unknown[]>

function contentBlockFrom(
  block: McpBlock,
):
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image' | 'audio'; readonly mimeType: string; readonly data: string } {
  switch (block.type) {
    case 'text':
      return { type: 'text', text: block.text }
    case 'image':
    case 'audio':
      return { type: block.type, mimeType: block.mimeType, data: block.data }
    case 'tool_use':
    case 'tool_result':
      // Only for clients with the capability `sampling.tools`, which this client does not declare.
      throw new McpError(-32_602, 'This client offers a model without tools')
  }
}

function modelNameOf({ response_metadata: metadata }: AIMessage): string | undefined {
  const name: unknown = metadata['model_name'] ?? metadata['model']
  return typeof name === 'string' ? name : undefined
}

/** Returns MCP's stop reason, or nothing for unknown reasons of a provider. */
function stopReasonOf({
  response_metadata: metadata,
}: AIMessage): Pick<CreateMessageResult, 'stopReason'> {
  const reason: unknown =
    metadata['finish_reason'] ?? metadata['stop_reason'] ?? metadata['finishReason']
  const stopReason = typeof reason === 'string' ? STOP_REASONS.get(reason.toLowerCase()) : undefined
  return stopReason === undefined ? {} : { stopReason }
}

/** Stop reasons of OpenAI, Anthropic and Google. */
const STOP_REASONS: ReadonlyMap<string, 'endTurn' | 'maxTokens' | 'stopSequence'> = new Map([
  ['stop', 'endTurn'],
  ['end_turn', 'endTurn'],
  ['length', 'maxTokens'],
  ['max_tokens', 'maxTokens'],
  ['stop_sequence', 'stopSequence'],
])
