import type { CallbackManagerForLLMRun } from '@langchain/core/callbacks/manager'
import { BaseChatModel } from '@langchain/core/language_models/chat_models'
import type { BindToolsInput } from '@langchain/core/language_models/chat_models'
import { AIMessage, AIMessageChunk, ToolMessage } from '@langchain/core/messages'
import type { BaseMessage } from '@langchain/core/messages'
import { ChatGenerationChunk } from '@langchain/core/outputs'
import type { ChatResult } from '@langchain/core/outputs'

/** A sentence that the model understands, and the tool call that it makes of it. */
interface Rule {
  readonly example: string
  readonly pattern: RegExp
  readonly tool: string
  /** Without it, the call has no arguments. */
  readonly args?: (match: RegExpMatchArray) => Record<string, unknown>
}

const RULES: readonly Rule[] = [
  {
    example: 'Add two apples to my basket',
    pattern: /\badd (\d+|an?|one|two|three)?\s*(.+?) to (?:my|the) basket/i,
    tool: 'basket_add',
    args: ([, count, item]) => ({ item, quantity: toNumber(count) }),
  },
  {
    example: 'Show my basket',
    pattern: /\b(?:show|what is in) (?:my|the) basket/i,
    tool: 'basket_show',
  },
  { example: 'Check out', pattern: /\bcheck ?out\b/i, tool: 'basket_checkout' },
  { example: 'Show me the receipt', pattern: /\breceipt\b/i, tool: 'basket_receipt' },
  {
    example: 'What is 2 plus 3?',
    pattern: /\bwhat is (-?\d+) plus (-?\d+)/i,
    tool: 'get-sum',
    args: ([, a, b]) => ({ a: Number(a), b: Number(b) }),
  },
  {
    example: 'Echo "hello"',
    pattern: /\becho "(.+?)"/i,
    tool: 'echo',
    args: ([, message]) => ({ message }),
  },
  { example: 'Show me an image', pattern: /\bimage\b/i, tool: 'get-tiny-image' },
  { example: 'Show me links', pattern: /\blinks\b/i, tool: 'get-resource-links' },
  {
    example: 'Count to 5',
    pattern: /\bcount to (\d)\b/i,
    tool: 'trigger-long-running-operation',
    args: ([, steps]) => ({ duration: Number(steps), steps: Number(steps) }),
  },
  {
    example: 'Remember that Ada likes pears',
    pattern: /\bremember that (\w+) (.+)/i,
    tool: 'create_entities',
    args: ([, name, fact]) => ({ entities: [{ name, entityType: 'thing', observations: [fact] }] }),
  },
  {
    example: 'What do you remember?',
    pattern: /\bwhat do you (?:know|remember)/i,
    tool: 'read_graph',
  },
  {
    example: 'Write a report about pears',
    pattern: /\breport (?:on|about) (.+)/i,
    tool: 'write_report',
    args: ([, topic]) => ({ message: topic }),
  },
]

/** Makes the model fail, as a service that is down does. */
const FAILURE = /\bmodel error\b/i

/** A model does not repeat a result of 10 MiB. */
const MAX_ANSWER_CHARACTERS = 600

/**
 * A chat model that needs no network and always says the same: it makes tool calls of a few sentences, one
 * after the other where they are joined by ", then", and repeats what the last tool answered.
 */
export class ScriptedModel extends BaseChatModel {
  readonly #tools: readonly string[]

  constructor(tools: readonly string[] = []) {
    super({})
    this.#tools = tools
  }

  override bindTools(tools: BindToolsInput[]): ScriptedModel {
    return new ScriptedModel(tools.flatMap((tool) => ('name' in tool ? [String(tool.name)] : [])))
  }

  override _llmType(): string {
    return 'scripted'
  }

  override async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const message = this.#answer(messages)
    return { generations: [{ text: message.text, message }] }
  }

  /** A word at a time, as a real model would. */
  override async *_streamResponseChunks(
    messages: BaseMessage[],
    _options: this['ParsedCallOptions'],
    run?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    const { text, tool_calls: calls = [] } = this.#answer(messages)
    const toolCallChunks = calls.map((call, index) => ({
      ...call,
      type: 'tool_call_chunk' as const,
      index,
      args: JSON.stringify(call.args),
    }))
    const words = text.match(/\S+\s*/g) ?? []
    const chunks = [{ content: '', tool_call_chunks: toolCallChunks }, ...words]
    for (const fields of chunks) {
      const message = new AIMessageChunk(fields)
      yield new ChatGenerationChunk({ text: message.text, message })
      await run?.handleLLMNewToken(message.text)
    }
  }

  #answer(messages: readonly BaseMessage[]): AIMessage {
    const asked = messages.findLastIndex((message) => message.getType() === 'human')
    const results = messages.slice(asked + 1).filter((message) => ToolMessage.isInstance(message))
    const sentences = (messages[asked]?.text ?? '').split(/,? then /i)
    const sentence = sentences[results.length]
    if (sentence === undefined) {
      const text = textOf(results.at(-1))
      const isLong = text.length > MAX_ANSWER_CHARACTERS
      return new AIMessage(isLong ? `${text.slice(0, MAX_ANSWER_CHARACTERS)} …` : text)
    }
    if (FAILURE.test(sentence)) {
      throw new Error('The scripted model fails when it is asked for a model error')
    }
    const call = this.#callFor(sentence)
    if (call !== undefined) {
      return new AIMessage({ content: '', tool_calls: [{ id: crypto.randomUUID(), ...call }] })
    }
    const examples = RULES.map(({ example }) => example).join('; ')
    return new AIMessage(`I am a scripted model. I understand: ${examples}.`)
  }

  /** Calls the tool of the sentence, or else the sub-agent that has it. */
  #callFor(sentence: string): { name: string; args: Record<string, unknown> } | undefined {
    for (const { pattern, tool, args } of RULES) {
      const match = sentence.match(pattern)
      if (match === null) continue
      if (this.#tools.includes(tool)) return { name: tool, args: args?.(match) ?? {} }
      const subAgent = tool.startsWith('basket_') ? 'ask_shopper' : 'ask_assistant'
      if (this.#tools.includes(subAgent)) return { name: subAgent, args: { request: sentence } }
    }
    return undefined
  }
}

/** Texts of a message, each in a line of its own. */
function textOf(message: BaseMessage | undefined): string {
  const blocks = message?.contentBlocks ?? []
  return blocks.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('\n')
}

function toNumber(word = 'one'): number {
  const words: Record<string, number> = { a: 1, an: 1, one: 1, two: 2, three: 3 }
  return words[word.toLowerCase()] ?? Number(word)
}
