import {
  AIMessage,
  isToolMessage,
  type BaseMessage,
  type ToolMessage,
} from '@langchain/core/messages'
import { tool, type StructuredTool, type ToolRunnableConfig } from '@langchain/core/tools'
import {
  Command,
  INTERRUPT,
  isInterrupted,
  MemorySaver,
  MessagesAnnotation,
  Send,
  StateGraph,
  type BaseCheckpointSaver,
  type BaseStore,
} from '@langchain/langgraph'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import { createAgent, fakeModel } from 'langchain'
import { z } from 'zod'
import { fanOutToolCalls } from '../src/fan-out-tool-calls.ts'
import type { McpElicitationInterrupt } from '../src/index.ts'

/** A call of the model. Its id is its position. */
export interface Calling {
  readonly name: string
  readonly args?: Record<string, unknown>
}

/** State of the graph at the end of a turn. */
export interface Turn {
  readonly interrupts: readonly { readonly id?: string; readonly value: McpElicitationInterrupt }[]
  /** Results of tools, by the id of the call. */
  readonly answers: Readonly<Record<string, ToolMessage>>
}

/** A graph whose model makes the given calls once, and then answers `done`. */
export interface AskingGraph {
  start(signal?: AbortSignal): Promise<Turn>
  /** Passes on any answer, as a user interface may send it. */
  resume(resume: Readonly<Record<string, unknown>>, signal?: AbortSignal): Promise<Turn>
  /** Continues after a process that was killed. */
  goOn(): Promise<Turn>
}

export interface AskingGraphOptions {
  readonly kind:
    | 'createAgent'
    | 'fanOutToolCalls'
    | 'ToolNode'
    | 'Send of all calls'
    /** `createAgent` as a tool of another agent. */
    | 'sub-agent'
    /** Two of them that work at the same time, and whose models use the same ids. */
    | 'parallel sub-agents'
    /** `createAgent` as a node of another graph. */
    | 'subgraph'
  readonly tools: readonly StructuredTool[]
  readonly calls: readonly Calling[]
  readonly checkpointer?: BaseCheckpointSaver | undefined
  readonly store?: BaseStore | undefined
  /** @default 't1' */
  readonly thread?: string
  /** Additional values in `configurable`. */
  readonly user?: string
  /** When LangGraph stores what tasks did. @default 'sync' */
  readonly durability?: 'sync' | 'exit' | undefined
}

export function askingGraph({
  kind,
  tools,
  calls,
  checkpointer = new MemorySaver(),
  store,
  thread = 't1',
  user,
  durability = 'sync',
}: AskingGraphOptions): AskingGraph {
  const toolCalls = calls.map(({ name, args = {} }, index) => ({
    type: 'tool_call' as const,
    id: `call-${index}`,
    name,
    args,
  }))
  const given = { checkpointer, ...(store !== undefined && { store }) }
  const configurable = { thread_id: thread, ...(user !== undefined && { user }) }
  const config = { configurable, durability }
  const invoke = async (input: unknown, signal?: AbortSignal): Promise<Turn> =>
    turnFrom(await run(input, signal))
  const run = runOf(kind, { tools: [...tools], toolCalls, given, config })
  return {
    start: (signal) => invoke({ messages: [{ role: 'user', content: 'go' }] }, signal),
    resume: (resume, signal) => invoke(new Command({ resume }), signal),
    goOn: () => invoke(null),
  }
}

function runOf(
  kind: AskingGraphOptions['kind'],
  {
    tools,
    toolCalls,
    given,
    config,
  }: {
    readonly tools: StructuredTool[]
    readonly toolCalls: NonNullable<AIMessage['tool_calls']>
    readonly given: { readonly checkpointer: BaseCheckpointSaver; readonly store?: BaseStore }
    readonly config: object
  },
): (input: unknown, signal?: AbortSignal) => Promise<unknown> {
  const configOf = (signal: AbortSignal | undefined): object =>
    signal === undefined ? config : { ...config, signal }
  if (kind === 'sub-agent' || kind === 'parallel sub-agents' || kind === 'subgraph') {
    const inner = createAgent({ model: modelOf(toolCalls), tools })
    if (kind === 'subgraph') {
      const graph = new StateGraph(MessagesAnnotation)
        .addNode('agent', inner.graph)
        .addEdge('__start__', 'agent')
        .compile(given)
      return (input, signal) =>
        graph.invoke(input as Parameters<typeof graph.invoke>[0], configOf(signal))
    }
    let last: BaseMessage[] = []
    const helper = tool(
      async (_args, innerConfig: ToolRunnableConfig) => {
        const { messages } = await inner.invoke({ messages: 'go' }, innerConfig)
        last = messages
        return 'helped'
      },
      { name: 'helper', schema: z.object({}) },
    )
    const helpers = kind === 'sub-agent' ? ['outer'] : ['outer-1', 'outer-2']
    const outer = createAgent({
      model: modelOf(
        helpers.map((id) => ({ type: 'tool_call', id, name: 'helper', args: {} }) as const),
      ),
      tools: [helper],
      ...given,
    })
    return async (input, signal) => {
      const state = await outer.invoke(
        input as Parameters<typeof outer.invoke>[0],
        configOf(signal),
      )
      return { ...state, messages: [...state.messages, ...last] }
    }
  }
  if (kind === 'createAgent') {
    const agent = createAgent({ model: modelOf(toolCalls), tools, ...given })
    return (input, signal) =>
      agent.invoke(input as Parameters<typeof agent.invoke>[0], configOf(signal))
  }
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('model', ({ messages }) => ({ messages: [nextOf(messages, toolCalls)] }))
    .addNode('tools', new ToolNode(tools))
    .addEdge('__start__', 'model')
    .addEdge('tools', 'model')
    .addConditionalEdges(
      'model',
      kind === 'fanOutToolCalls'
        ? fanOutToolCalls()
        : (state) => {
            if (!(state.messages.at(-1) as AIMessage).tool_calls?.length) return '__end__'
            return kind === 'ToolNode' ? 'tools' : [new Send('tools', state)]
          },
      ['tools', '__end__'],
    )
    .compile(given)
  return (input, signal) =>
    graph.invoke(input as Parameters<typeof graph.invoke>[0], configOf(signal))
}

function modelOf(toolCalls: NonNullable<AIMessage['tool_calls']>): ReturnType<typeof fakeModel> {
  const answer = (messages: BaseMessage[]): AIMessage => nextOf(messages, toolCalls)
  const turns = Array.from({ length: 8 }, () => answer)
  return turns.reduce((model, turn) => model.respond(turn), fakeModel())
}

function nextOf(
  messages: readonly BaseMessage[],
  toolCalls: NonNullable<AIMessage['tool_calls']>,
): AIMessage {
  return messages.some(isToolMessage)
    ? new AIMessage('done')
    : new AIMessage({ content: '', tool_calls: toolCalls })
}

function turnFrom(state: unknown): Turn {
  const { messages } = state as { readonly messages: readonly BaseMessage[] }
  return {
    interrupts: isInterrupted<McpElicitationInterrupt>(state)
      ? (state[INTERRUPT] as Turn['interrupts'])
      : [],
    answers: Object.fromEntries(
      messages.filter(isToolMessage).map((message) => [message.tool_call_id, message]),
    ),
  }
}
