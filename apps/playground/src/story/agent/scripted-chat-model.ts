import { BaseChatModel } from '@langchain/core/language_models/chat_models'
import type { BindToolsInput } from '@langchain/core/language_models/chat_models'
import { AIMessage } from '@langchain/core/messages'
import type { BaseMessage } from '@langchain/core/messages'
import type { ChatResult } from '@langchain/core/outputs'

interface Rule {
  readonly asks: RegExp
  readonly tool: string
  readonly args: (match: RegExpMatchArray) => Record<string, unknown>
}

/** The first that matches counts. */
const RULES: readonly Rule[] = [
  { asks: /let the clerk (.+)/i, tool: 'ask_clerk', args: ([, task]) => ({ task }) },
  {
    asks: /count up by (\d+)/i,
    tool: 'counter_add',
    args: ([, by]) => ({ by: Number(by) }),
  },
  { asks: /put (.+?) into the cart/i, tool: 'cart_add', args: ([, item]) => ({ item }) },
  {
    asks: /what is (\d+) plus (\d+)/i,
    tool: 'add',
    args: ([, a, b]) => ({ a: Number(a), b: Number(b) }),
  },
  {
    asks: /write a report about (.+)/i,
    tool: 'write_report',
    args: ([, topic]) => ({ message: topic }),
  },
  { asks: /echo "(.+?)"/i, tool: 'echo', args: ([, message]) => ({ message }) },
]

/**
 * A chat model that needs no network and always says the same: it turns a few sentences into tool calls,
 * one after the other where they are joined by ", then", and repeats what the last tool answered.
 */
export class ScriptedChatModel extends BaseChatModel {
  #tools: readonly string[] = []

  constructor() {
    super({})
  }

  override bindTools(tools: BindToolsInput[]): ScriptedChatModel {
    const bound = new ScriptedChatModel()
    bound.#tools = tools.flatMap((tool) => ('name' in tool ? [String(tool.name)] : []))
    return bound
  }

  override _llmType(): string {
    return 'scripted'
  }

  override async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const message = this.#answer(messages)
    return { generations: [{ text: message.text, message }] }
  }

  #answer(messages: readonly BaseMessage[]): AIMessage {
    const asked = messages.findLastIndex((message) => message.getType() === 'human')
    const done = messages.slice(asked + 1).filter((message) => message.getType() === 'tool')
    const steps = (messages[asked]?.text ?? '').split(/, then /i)
    const text = steps[done.length]
    if (text === undefined) return new AIMessage(done.at(-1)?.text ?? '')
    for (const { asks, tool, args } of RULES) {
      const match = text.match(asks)
      if (match === null) continue
      if (!this.#tools.includes(tool)) return new AIMessage(`I have no tool called "${tool}".`)
      const id = `call_${messages.length}`
      return new AIMessage({ content: '', tool_calls: [{ id, name: tool, args: args(match) }] })
    }
    return new AIMessage(
      'I can count up by a number, put something into the cart, add two numbers, or echo "text".',
    )
  }
}
