import { setImmediate } from 'node:timers/promises'
import { isRecord, legible } from '@x/internal'
import { shortened } from '../../internal/text.ts'
import type { AgentUpdate } from '../agent.ts'
import type { ModelUsage } from '../../internal/run-event.ts'
import { contentOf, messageFrom, textOf, textOfMessage, type Message } from './content.ts'
import { interruptsFrom, type GraphInterrupt } from './interrupts.ts'

/** The modes of `RemoteGraph`. */
export const REMOTE_STREAM_MODES = ['messages', 'updates', 'custom', 'values'] as const

/** `tools`: what async generators of tools yield. LangGraph servers do not know this mode. */
export const STREAM_MODES = ['messages', 'updates', 'custom', 'values', 'tools'] as const

const MAX_MODEL_CHARS = 100

/** Values from the stream of a graph that show how it ended. `endingOf()` reads them. */
export interface GraphEnd {
  /** The first state: what the thread knew, with the input of the call. `undefined` if the stream did not begin with a state. */
  start: unknown
  /** The last state. */
  state: unknown
  interrupts: readonly GraphInterrupt[]
  /** The graph stopped: at a question, or at a breakpoint, which has no interrupt. */
  isStopped: boolean
  /** A further state is not the first one. */
  isBegun: boolean
  /** Id of the message of the last piece of text. */
  messageId?: unknown
}

export function newEnd(): GraphEnd {
  return { start: undefined, state: undefined, interrupts: [], isStopped: false, isBegun: false }
}

/**
 * Reads one chunk of `graph.stream()` with `subgraphs: true`: an update, or a part of the end.
 *
 * @param isRemote the graph runs at a server, so tokens can be counted from its messages only
 */
export function readChunk(
  chunk: unknown,
  end: GraphEnd,
  isRemote: boolean,
): AgentUpdate | undefined {
  if (!Array.isArray(chunk)) return undefined
  const [path, mode, payload]: readonly unknown[] = chunk
  const isRoot = Array.isArray(path) && path.length === 0
  switch (mode) {
    case 'messages':
      return textUpdate(payload, end, isRemote)
    case 'custom':
      return customUpdate(payload)
    case 'tools':
      return isRecord(payload) && payload['event'] === 'on_tool_event'
        ? customUpdate(payload['data'])
        : undefined
    case 'updates':
      if (!isRoot) return undefined
      end.isBegun = true
      end.isStopped ||= interruptsOf(payload) !== undefined
      return stepUpdate(payload)
    case 'values':
      if (isRoot) readValues(payload, end)
      return undefined
    default:
      return undefined
  }
}

/** Reads a piece of a message. Each message starts on a line of its own. */
function textUpdate(payload: unknown, end: GraphEnd, isRemote: boolean): AgentUpdate | undefined {
  const [piece, metadata]: readonly unknown[] = Array.isArray(payload) ? payload : []
  const message = messageFrom(piece)
  if (message?.kind !== 'ai') return undefined
  const text = textOfMessage(message)
  const usage = isRemote ? usageOf(message, modelIn(metadata)) : undefined
  if (text === '') return usage && { type: 'text', text, usage }
  const { id } = message
  const isNext = end.messageId !== undefined && id !== undefined && id !== end.messageId
  end.messageId = id ?? end.messageId
  return { type: 'text', text: isNext ? `\n${text}` : text, ...(usage && { usage }) }
}

/** Returns the name of the model of a message, as LangChain gives it. */
function modelIn(metadata: unknown): string | undefined {
  const model = isRecord(metadata) ? textOf(metadata['ls_model_name']) : undefined
  return model === undefined ? undefined : legible(shortened(model, MAX_MODEL_CHARS))
}

function usageOf({ usage }: Message, model: string | undefined): ModelUsage | undefined {
  return usage && { ...(model !== undefined && { model }), ...usage }
}

function stepUpdate(payload: unknown): AgentUpdate | undefined {
  const names = isRecord(payload)
    ? Object.keys(payload).filter((name) => !name.startsWith('__'))
    : []
  return names.length === 0 ? undefined : { type: 'status', text: `Done: ${names.join(', ')}` }
}

/**
 * Collects interrupts until the stream ends: parallel nodes send theirs one by one, and the state of another node may
 * follow. LangGraph for Python sends them beside the state.
 */
function readValues(payload: unknown, end: GraphEnd): void {
  const found = interruptsOf(payload)
  const isAlone = isRecord(payload) && Object.keys(payload).length === 1
  if (found === undefined || !isAlone) {
    end.state = payload
    if (!end.isBegun) end.start = payload
  }
  end.isBegun = true
  if (found === undefined) return
  end.isStopped = true
  const known = new Set(end.interrupts.map(({ id }) => id))
  const fresh = interruptsFrom(found).filter(({ id }) => id === undefined || !known.has(id))
  end.interrupts = [...end.interrupts, ...fresh]
}

/** Returns the list of interrupts in an update or a state. It is empty at a breakpoint. `undefined` if the graph goes on. */
function interruptsOf(payload: unknown): readonly unknown[] | undefined {
  const found = isRecord(payload) ? payload['__interrupt__'] : undefined
  return Array.isArray(found) ? found : undefined
}

/**
 * Reads an event that a node or a tool sent: with its `writer`, as a value of its generator, or by
 * `dispatchCustomEvent()`. A text is a line of progress, as is `{ message, progress, total }`, in which one of the first
 * two is enough. `{ type: 'artifact', name, mimeType?, data | text | url }` is a file, with `data` as bytes or base64.
 * `{ type: 'status', text }` is a line of progress, `{ type: 'text', text }` a piece of the answer. Other events are
 * ignored.
 */
function customUpdate(event: unknown): AgentUpdate | undefined {
  if (typeof event === 'string') return event === '' ? undefined : { type: 'status', text: event }
  if (!isRecord(event)) return undefined
  const { type, name, text } = event
  if ((type === 'status' || type === 'text') && typeof text === 'string') return { type, text }
  if (type !== 'artifact') return progressUpdate(event)
  const found = typeof name === 'string' ? contentOf(event) : undefined
  if (typeof name !== 'string' || found === undefined) return undefined
  return { type: 'file', file: { name, mimeType: textOf(event['mimeType']), data: found.data } }
}

/** The numbers are part of the text: those of a client count the pieces of all agents and tools of a call. */
function progressUpdate({
  message,
  progress,
  total,
}: Readonly<Record<string, unknown>>): AgentUpdate | undefined {
  const done = typeof progress === 'number' ? String(progress) : undefined
  const numbers = done !== undefined && typeof total === 'number' ? `${done} of ${total}` : done
  const said = textOf(message)
  if (said === undefined && numbers === undefined) return undefined
  if (said === undefined) return { type: 'status', text: `Progress: ${numbers}` }
  return { type: 'status', text: numbers === undefined ? said : `${said} (${numbers})` }
}

/** Arguments of `handleChatModelStart()` of LangChain. */
type ModelStart = [
  model: unknown,
  messages: unknown,
  runId: string,
  parent: unknown,
  extra: unknown,
  tags: unknown,
  metadata: unknown,
]

/** Returns the messages in the result of one run of a model. */
function messagesOf(output: unknown): readonly unknown[] {
  const generations = isRecord(output) ? output['generations'] : undefined
  const answers: readonly unknown[] = Array.isArray(generations) ? generations.flat() : []
  return answers.map((one) => (isRecord(one) ? one['message'] : undefined))
}

/** Updates that arrive beside the stream of a graph. */
export class Arrivals {
  readonly #updates: AgentUpdate[] = []
  #wake: () => void = () => undefined
  /** All that has arrived is taken. */
  #isAtRest = true
  #atRest = Promise.withResolvers<void>()
  #isDone = false

  /** Names of the models that are running, by the ids of their runs. LangChain may report the same end twice. */
  readonly #models = new Map<string, string | undefined>()

  /**
   * For LangChain: takes what a node or a tool sends with `dispatchCustomEvent()`, and the tokens of models. The stream has
   * no messages of models that are tagged `nostream`, and has messages of nodes that are copies.
   */
  readonly callbacks: readonly object[] = [
    {
      name: 'mcp-gateway',
      // Otherwise LangChain calls all handlers later, and the stream loses the last pieces of a text.
      awaitHandlers: true,
      handleCustomEvent: (_name: string, data: unknown): void => this.#add(customUpdate(data)),
      handleChatModelStart: (...[, , runId, , , , metadata]: ModelStart): void => {
        this.#models.set(runId, modelIn(metadata))
      },
      handleLLMEnd: (output: unknown, runId: string): void => {
        this.#addUsage(runId, messagesOf(output))
      },
      // The error of an aborted call has the part of the answer that had arrived. Other errors tell no tokens.
      handleLLMError: (error: unknown, runId: string): void => {
        this.#addUsage(runId, isRecord(error) ? [error['partialOutput']] : [])
      },
    },
  ]

  /**
   * For a run that another process may continue: a node ends after its files are stored. Otherwise its process could die
   * between the checkpoint and the file, and the node would not run again. A node of a stream that is left never ends:
   * LangGraph itself ends the run.
   */
  readonly holdNodes: object = {
    awaitHandlers: true,
    handleChainEnd: (_output: unknown, _runId: string, parent: string | undefined) =>
      this.#untilTaken(parent),
    // With this error, a node of a subgraph ends that names the next node of the graph around it.
    handleChainError: async (error: unknown, _runId: string, parent: string | undefined) => {
      if (isRecord(error) && error['name'] === 'ParentCommand') await this.#untilTaken(parent)
    },
  }

  /** Returns the chunks of a stream, and updates as soon as they arrive. */
  async *among(chunks: AsyncIterable<unknown>): AsyncGenerator<{ chunk: unknown } | AgentUpdate> {
    const iterator = chunks[Symbol.asyncIterator]()
    let next = iterator.next()
    let result: IteratorResult<unknown> | undefined
    try {
      for (;;) {
        const arrived = new Promise<void>((resolve) => {
          this.#wake = resolve
          if (this.#updates.length > 0) resolve()
        })
        if (this.#updates.length === 0) this.#rest()
        let failure: { readonly error: unknown } | undefined
        const taken = next.then((each) => (result = each))
        await Promise.race([arrived, taken]).catch((error: unknown) => (failure = { error }))
        this.#resume()
        yield* this.#updates.splice(0)
        if (failure) throw failure.error
        if (result === undefined) continue
        if (result.done === true) {
          yield* this.#updates.splice(0) // what arrived while the others were taken
          this.#isDone = true
          this.#rest()
          return
        }
        yield { chunk: result.value }
        result = undefined
        next = iterator.next()
      }
    } finally {
      next.catch(() => undefined)
      if (result?.done !== true) await iterator.return?.()
    }
  }

  /** @param parent `undefined`: the run of the graph itself, whose nodes have all ended */
  async #untilTaken(parent: string | undefined): Promise<void> {
    if (parent === undefined) return
    for (;;) {
      await setImmediate() // what a node sends passes several streams before it arrives here
      if (this.#isAtRest) return
      await this.#atRest.promise
    }
  }

  #rest(): void {
    this.#isAtRest = true
    this.#atRest.resolve()
  }

  #resume(): void {
    if (!this.#isAtRest) return
    this.#isAtRest = false
    this.#atRest = Promise.withResolvers()
  }

  /** Counts a run of a model once. Each of several answers has the tokens of all. */
  #addUsage(runId: string, answers: readonly unknown[]): void {
    const model = this.#models.get(runId)
    if (!this.#models.delete(runId)) return
    const told = answers.map(messageFrom).find((message) => message?.usage !== undefined)
    const usage = told && usageOf(told, model)
    this.#add(usage && { type: 'text', text: '', usage })
  }

  #add(update: AgentUpdate | undefined): void {
    if (update === undefined || this.#isDone) return
    this.#updates.push(update)
    this.#resume()
    this.#wake()
  }
}
