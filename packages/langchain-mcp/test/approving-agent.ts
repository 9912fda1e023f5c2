import { AIMessage, HumanMessage, isToolMessage, type BaseMessage } from '@langchain/core/messages'
import { type StructuredTool } from '@langchain/core/tools'
import {
  Command,
  INTERRUPT,
  isInterrupted,
  MemorySaver,
  MessagesAnnotation,
  StateGraph,
  type BaseCheckpointSaver,
} from '@langchain/langgraph'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import { type LegacyServer } from '@x/mcp-testing'
import { createAgent, fakeModel } from 'langchain'
import { createMcpTools, isApprovalInterrupt, type Approve, type McpTools } from '../src/index.ts'
import { fanOutToolCalls } from '../src/langgraph.ts'
import { ScriptedModel } from './scripted-model.ts'

export const config: { configurable: { thread_id: string } } = { configurable: { thread_id: 't1' } }

export function shopOf(
  server: LegacyServer,
  approve: Approve = ({ tool }) => tool.name === 'cart_add',
): McpTools {
  return createMcpTools({ servers: { shop: { url: server.url } }, approve })
}

export async function agentOf(mcp: McpTools): Promise<ReturnType<typeof createAgent>> {
  return createAgent({
    model: new ScriptedModel(),
    tools: await mcp.listTools(),
    checkpointer: new MemorySaver(),
  })
}

export function say(content: string): { messages: { role: string; content: string }[] } {
  return { messages: [{ role: 'user', content }] }
}

export function decide(...decisions: readonly unknown[]): Command {
  return new Command({ resume: { decisions } })
}

interface Waiting {
  readonly id: string
  readonly value: unknown
}

/** Returns the interrupts that wait for a decision, as an application sees them. */
export function interruptsIn(result: object): Waiting[] {
  return isInterrupted(result) ? result[INTERRUPT].map(({ id = '', value }) => ({ id, value })) : []
}

export function questionsIn(result: object): unknown[] {
  return interruptsIn(result).map(({ value }) => value)
}

export type Kind = 'createAgent' | 'fanOutToolCalls'
export type Calls = readonly { readonly name: string; readonly args: object }[]

/** Runs a graph and returns the interrupts that wait, in the order of their keys. */
interface AskingGraph {
  start(thread?: string): Promise<Waiting[]>
  resume(resume: unknown, thread?: string): Promise<Waiting[]>
  goOn(): Promise<Waiting[]>
}

/** Makes a graph whose model makes the given calls in one message. */
export async function askingGraphOf(
  kind: Kind,
  given: {
    readonly tools: StructuredTool[]
    readonly calls: Calls
    readonly checkpointer?: BaseCheckpointSaver
  },
): Promise<AskingGraph> {
  const { tools, calls, checkpointer = new MemorySaver() } = given
  const tool_calls = calls.map(({ name, args }, index) => ({
    type: 'tool_call' as const,
    id: `c${index}`,
    name,
    args: { ...args },
  }))
  const respond = (messages: BaseMessage[]): AIMessage =>
    messages.some(isToolMessage)
      ? new AIMessage('done')
      : new AIMessage({ content: '', tool_calls })
  const model = Array.from({ length: 8 }).reduce<ReturnType<typeof fakeModel>>(
    (fake) => fake.respond(respond),
    fakeModel(),
  )
  const graph =
    kind === 'createAgent'
      ? createAgent({ model, tools, checkpointer }).graph
      : new StateGraph(MessagesAnnotation)
          .addNode('model', ({ messages }) => ({ messages: [respond(messages)] }))
          .addNode('tools', new ToolNode(tools))
          .addEdge('__start__', 'model')
          .addEdge('tools', 'model')
          .addConditionalEdges('model', fanOutToolCalls(), ['tools', '__end__'])
          .compile({ checkpointer })
  const invoke = async (input: unknown, thread = 't1') => {
    const on = { configurable: { thread_id: thread } }
    const state: unknown = await graph.invoke(input as Parameters<typeof graph.invoke>[0], on)
    return interruptsIn(state as object).toSorted((a, b) => keyOf(a).localeCompare(keyOf(b)))
  }
  return {
    start: (thread?: string) => invoke({ messages: [new HumanMessage('buy')] }, thread),
    resume: (resume: unknown, thread?: string) => invoke(new Command({ resume }), thread),
    goOn: () => invoke(null),
  }
}

const keyOf = ({ value }: { readonly value: unknown }): string =>
  isApprovalInterrupt(value) ? value.key : ''

export const buy = (...items: readonly string[]): Calls =>
  items.map((item) => ({ name: 'cart_add', args: { item } }))

export const approve = { decisions: [{ type: 'approve' }] } as const
export const AMBIGUOUS: RegExp = /^Several calls wait/
