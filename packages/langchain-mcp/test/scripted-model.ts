import { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { AIMessage } from '@langchain/core/messages'
import type { BaseMessage } from '@langchain/core/messages'
import type { ChatResult } from '@langchain/core/outputs'

/**
 * A model that follows instructions: `call counter_add {"by":2}` calls that tool, several lines are parallel
 * calls. Its answer is the results of the tools. It keeps no state, so that any process can continue.
 */
export class ScriptedModel extends BaseChatModel {
  readonly #onMessages: (messages: readonly BaseMessage[]) => void

  /** @param onMessages receives what the model is asked, with its system prompt */
  constructor(onMessages: (messages: readonly BaseMessage[]) => void = () => {}) {
    super({})
    this.#onMessages = onMessages
  }

  override bindTools(): this {
    return this
  }

  override _llmType(): string {
    return 'scripted'
  }

  override async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    this.#onMessages(messages)
    const message = answerTo(messages)
    return { generations: [{ text: message.text, message }] }
  }
}

function answerTo(messages: readonly BaseMessage[]): AIMessage {
  const since = messages.findLastIndex((message) => message.getType() !== 'tool') + 1
  const answers = messages.slice(since)
  if (answers.length > 0) return new AIMessage(answers.map(({ text }) => text).join('\n'))
  const calls = (messages.at(-1)?.text ?? '').matchAll(/^call (\S+)(?: (.*))?$/gm)
  const toolCalls = Array.from(calls, ([, name = '', args = '{}'], index) => ({
    type: 'tool_call' as const,
    id: `call_${messages.length}_${index}`,
    name,
    args: JSON.parse(args) as Record<string, unknown>,
  }))
  return toolCalls.length === 0
    ? new AIMessage('Nothing to do.')
    : new AIMessage({ content: '', tool_calls: toolCalls })
}
