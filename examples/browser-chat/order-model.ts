import { randomUUID } from 'node:crypto'
import { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { AIMessage } from '@langchain/core/messages'
import type { BaseMessage } from '@langchain/core/messages'
import type { ChatResult } from '@langchain/core/outputs'

/** Orders what the user writes, and repeats the answer of the tool. Replace it by `new ChatAnthropic(…)`. */
export class OrderModel extends BaseChatModel {
  constructor() {
    super({})
  }

  override _llmType(): string {
    return 'order'
  }

  override bindTools(): this {
    return this
  }

  override async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const last = messages.at(-1)
    const text = last?.text ?? ''
    const call = { id: randomUUID(), name: 'order', args: { item: text } }
    const message =
      last?.type === 'human'
        ? new AIMessage({ content: '', tool_calls: [call] })
        : new AIMessage(text)
    return { generations: [{ text: message.text, message }] }
  }
}
