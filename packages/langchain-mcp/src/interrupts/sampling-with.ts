import type { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { AIMessage, HumanMessage, SystemMessage, type BaseMessage } from '@langchain/core/messages'
import {
  McpError,
  type CreateMessageRequest,
  type CreateMessageResult,
} from '@modelcontextprotocol/sdk/types.js'
import { check, type Checks } from '@x/internal'
import type { ClientHandlers, HandlerContext } from '@x/mcp-client'
import { assertOptions } from '../base/options.ts'

/** What a server asks the model (`sampling/createMessage`). */
export type SamplingRequest = CreateMessageRequest['params']

export interface SamplingWithOptions {
  /**
   * Whether the model may be asked: a server pays nothing for it, and reads the answer. May give another
   * request in its place. `() => true` for servers that you trust.
   */
  readonly approve: (
    request: SamplingRequest,
    context: HandlerContext,
  ) => boolean | SamplingRequest | Promise<boolean | SamplingRequest>
  /** Options of the model for a request: limits of tokens and temperature have other names at each provider. @default only `stop` and `signal` */
  readonly callOptions?:
    | ((request: SamplingRequest) => Readonly<Record<string, unknown>>)
    | undefined
}

const optionChecks: Checks<SamplingWithOptions & { model: unknown }> = {
  model: check.required({ ...check.methods('invoke'), takes: 'a chat model' }),
  approve: check.required(check.func),
  callOptions: check.func,
}

/** JSON-RPC, as in the example of the specification: the user rejected it. */
const REJECTED = -1

/**
 * A handler that answers what servers ask of a model with a model of LangChain, for `handlers.sampling` of
 * a client, or `sampling` of `elicitationToInterrupt()`.
 *
 * @throws McpError from the handler, where the request is rejected
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
      // Only for clients that have declared `sampling.tools`, which this does not.
      throw new McpError(-32_602, 'This client offers a model without tools')
  }
}

function modelNameOf({ response_metadata: metadata }: AIMessage): string | undefined {
  const name: unknown = metadata['model_name'] ?? metadata['model']
  return typeof name === 'string' ? name : undefined
}

/** In the words of MCP; left out where the provider says nothing that has one. */
function stopReasonOf({
  response_metadata: metadata,
}: AIMessage): Pick<CreateMessageResult, 'stopReason'> {
  const reason: unknown =
    metadata['finish_reason'] ?? metadata['stop_reason'] ?? metadata['finishReason']
  const stopReason = typeof reason === 'string' ? STOP_REASONS.get(reason.toLowerCase()) : undefined
  return stopReason === undefined ? {} : { stopReason }
}

/** As OpenAI, Anthropic and Google say it. */
const STOP_REASONS: ReadonlyMap<string, 'endTurn' | 'maxTokens' | 'stopSequence'> = new Map([
  ['stop', 'endTurn'],
  ['end_turn', 'endTurn'],
  ['length', 'maxTokens'],
  ['max_tokens', 'maxTokens'],
  ['stop_sequence', 'stopSequence'],
])
