import { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { AIMessage } from '@langchain/core/messages'
import type { ChatResult } from '@langchain/core/outputs'

/** A model that says its messages one after the other, and the last one again. */
export class ScriptedModel extends BaseChatModel {
  readonly #messages: readonly AIMessage[]
  #count = 0

  constructor(...messages: readonly (string | AIMessage)[]) {
    super({})
    this.#messages = messages.map((one) => (typeof one === 'string' ? new AIMessage(one) : one))
  }

  override bindTools(): this {
    return this
  }

  override _llmType(): string {
    return 'scripted'
  }

  override async _generate(): Promise<ChatResult> {
    const said = this.#messages[Math.min(this.#count++, this.#messages.length - 1)]
    // A new object for each call, because graphs write ids and names into messages.
    const message = new AIMessage({
      content: said?.content ?? '',
      tool_calls: said?.tool_calls ?? [],
    })
    Object.assign(message, { usage_metadata: said?.usage_metadata })
    return { generations: [{ text: message.text, message }] }
  }
}

let calls = 0

/** A message in which a model calls a tool. */
export function calling(
  name: string,
  args: Readonly<Record<string, unknown>> = {},
  content = '',
): AIMessage {
  const id = `call_${++calls}`
  return new AIMessage({
    content,
    tool_calls: [{ type: 'tool_call', id, name, args: { ...args } }],
  })
}
