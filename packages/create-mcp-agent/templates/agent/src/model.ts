import { BaseChatModel } from '@langchain/core/language_models/chat_models'
import type { BindToolsInput } from '@langchain/core/language_models/chat_models'
import { AIMessage, ToolMessage } from '@langchain/core/messages'
import type { BaseMessage } from '@langchain/core/messages'
import type { ChatResult } from '@langchain/core/outputs'
import { initChatModel } from 'langchain'

/** Returns the model whose key is set, or a fake one. A real model needs the package of its provider. */
export async function createModel(): Promise<BaseChatModel> {
  if (process.env['ANTHROPIC_API_KEY']) {
    return initChatModel('anthropic:claude-sonnet-4-5') // npm install @langchain/anthropic
  }
  if (process.env['OPENAI_API_KEY']) {
    return initChatModel('openai:gpt-5-mini') // npm install @langchain/openai
  }
  return new FakeModel()
}

/**
 * Stands for a model, so that the project works without a key and its test without a network. A message such as
 * `echo {"message":"Hello"}` calls the tool `echo`. Then it repeats the result.
 */
class FakeModel extends BaseChatModel {
  readonly #tools: readonly string[]

  constructor(tools: readonly string[] = []) {
    super({})
    this.#tools = tools
  }

  override bindTools(tools: BindToolsInput[]): FakeModel {
    return new FakeModel(tools.flatMap((tool) => ('name' in tool ? [String(tool.name)] : [])))
  }

  override _llmType(): string {
    return 'fake'
  }

  override async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const message = this.#answer(messages.at(-1))
    return { generations: [{ text: message.text, message }] }
  }

  #answer(last: BaseMessage | undefined): AIMessage {
    const text = last?.text ?? ''
    if (ToolMessage.isInstance(last)) return new AIMessage(`The tool says: ${text}`)
    const [, name = '', args = '{}'] = /^(\S+)\s*(\{.*\})?$/s.exec(text.trim()) ?? []
    if (this.#tools.includes(name)) {
      const call = {
        type: 'tool_call',
        id: crypto.randomUUID(),
        name,
        args: JSON.parse(args),
      } as const
      return new AIMessage({ content: '', tool_calls: [call] })
    }
    const names = this.#tools.join(', ') || 'none'
    return new AIMessage(`I am a fake model. Name a tool and its arguments. Tools: ${names}`)
  }
}
