import { BaseChatModel } from '@langchain/core/language_models/chat_models'
import type { BindToolsInput } from '@langchain/core/language_models/chat_models'
import { AIMessage, AIMessageChunk } from '@langchain/core/messages'
import type { BaseMessage } from '@langchain/core/messages'
import { ChatGenerationChunk } from '@langchain/core/outputs'
import type { ChatResult } from '@langchain/core/outputs'
import type { CallbackManagerForLLMRun } from '@langchain/core/callbacks/manager'

/** A sentence that the model understands, and the tool call that it makes of it. */
interface Rule {
  readonly pattern: RegExp
  readonly tool: string
  readonly args: (match: RegExpMatchArray) => Record<string, unknown>
}

const RULES: readonly Rule[] = [
  {
    pattern: /\badd (\d+|an?|one|two|three)?\s*(.+?) to (?:my|the) basket/i,
    tool: 'basket_add',
    args: ([, count, item]) => ({ item, quantity: toNumber(count) }),
  },
  { pattern: /\b(?:show|what is in) (?:my|the) basket/i, tool: 'basket_show', args: () => ({}) },
  { pattern: /\bcheck ?out\b/i, tool: 'basket_checkout', args: () => ({}) },
  { pattern: /\breceipt\b/i, tool: 'basket_receipt', args: () => ({}) },
  {
    pattern: /\bwhat is (-?\d+) plus (-?\d+)/i,
    tool: 'get-sum',
    args: ([, a, b]) => ({ a: Number(a), b: Number(b) }),
  },
  { pattern: /\becho "(.+?)"/i, tool: 'echo', args: ([, message]) => ({ message }) },
  { pattern: /\bimage\b/i, tool: 'get-tiny-image', args: () => ({}) },
  { pattern: /\blinks\b/i, tool: 'get-resource-links', args: () => ({ count: 3 }) },
  {
    pattern: /\bweather in (new york|chicago|los angeles)/i,
    tool: 'get-structured-content',
    args: ([, city = '']) => ({
      location: city.replace(/\b[a-z]/g, (first) => first.toUpperCase()),
    }),
  },
  {
    pattern: /\bcount to (\d)\b/i,
    tool: 'trigger-long-running-operation',
    args: ([, steps]) => ({ duration: Number(steps), steps: Number(steps) }),
  },
  {
    pattern: /\bremember that (\w+) (.+)/i,
    tool: 'create_entities',
    args: ([, name, fact]) => ({
      entities: [{ name, entityType: 'thing', observations: [fact] }],
    }),
  },
  {
    pattern: /\bwhat do you (?:know|remember)/i,
    tool: 'read_graph',
    args: () => ({}),
  },
  {
    pattern: /\breport (?:on|about) (.+)/i,
    tool: 'write_report',
    args: ([, topic]) => ({ message: topic }),
  },
]

const SHOP = /basket|check ?out|receipt/i

/** Makes the model fail, as a service that is down does. */
const FAILURE = /\bmodel error\b/i

const MAX_ANSWER_CHARACTERS = 600

/** In the answer to a sentence that the model does not understand. */
const SENTENCES = [
  'Add two apples to my basket',
  'Show my basket',
  'Check out',
  'Show me the receipt',
  'What is 2 plus 3?',
  'Echo "hello"',
  'Show me an image',
  'Show me links',
  'What is the weather in Chicago?',
  'Count to 5',
  'Remember that Ada likes pears',
  'What do you remember?',
  'Write a report about pears',
] as const

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
    const words = text.match(/\S+\s*/g) ?? ['']
    for (const [index, word] of words.entries()) {
      const toolCallChunks =
        index > 0
          ? []
          : calls.map(({ id = '', name, args }, at) => ({
              type: 'tool_call_chunk' as const,
              index: at,
              id,
              name,
              args: JSON.stringify(args),
            }))
      const message = new AIMessageChunk({ content: word, tool_call_chunks: toolCallChunks })
      yield new ChatGenerationChunk({ text: word, message })
      await run?.handleLLMNewToken(word)
    }
  }

  #answer(messages: readonly BaseMessage[]): AIMessage {
    const asked = messages.findLastIndex((message) => message.getType() === 'human')
    const done = messages.slice(asked + 1).filter((message) => message.getType() === 'tool')
    const sentences = (messages[asked]?.text ?? '').split(/,? then /i)
    const sentence = sentences[done.length]
    if (sentence !== undefined && FAILURE.test(sentence)) {
      throw new Error('The scripted model fails when it is asked for a model error')
    }
    if (sentence === undefined) return new AIMessage(cut(textOf(done.at(-1))))
    const call = this.#callFor(sentence)
    if (call === undefined) {
      return new AIMessage(`I am a scripted model. I understand: ${SENTENCES.join('; ')}.`)
    }
    return new AIMessage({
      content: '',
      tool_calls: [{ id: `call_${crypto.randomUUID()}`, ...call }],
    })
  }

  #callFor(sentence: string): { name: string; args: Record<string, unknown> } | undefined {
    for (const { pattern, tool, args } of RULES) {
      const match = sentence.match(pattern)
      if (match === null) continue
      if (this.#tools.includes(tool)) return { name: tool, args: args(match) }
      const helper = SHOP.test(sentence) ? 'ask_shopper' : 'ask_assistant'
      if (this.#tools.includes(helper)) return { name: helper, args: { request: sentence } }
    }
    return undefined
  }
}

/** Returns the texts of a message, each in a line of its own. */
function textOf(message: BaseMessage | undefined): string {
  const blocks = message?.contentBlocks ?? []
  return blocks.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('\n')
}

/** A model does not repeat a result of 10 MiB. */
function cut(text: string): string {
  return text.length <= MAX_ANSWER_CHARACTERS ? text : `${text.slice(0, MAX_ANSWER_CHARACTERS)} …`
}

function toNumber(word: string | undefined): number {
  const words: Record<string, number> = { a: 1, an: 1, one: 1, two: 2, three: 3 }
  return word === undefined ? 1 : (words[word.toLowerCase()] ?? Number(word))
}
