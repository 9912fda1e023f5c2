// A process of the scenario `killed-tasks`: a gateway that accepts calls, a worker that executes them, or an agent.
import { flushCompileCache } from 'node:module'
import { join } from 'node:path'
import { AIMessage, isToolMessage } from '@langchain/core/messages'
import { Command, MessagesAnnotation, StateGraph } from '@langchain/langgraph'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import { SqliteSaver, SqliteStore } from '@x/internal/testing/langgraph'
import { createMcpTools, elicitationResume, isElicitationInterrupt } from '@x/langchain-mcp'
import type { InterruptResume } from '@x/langchain-mcp'
import { fanOutToolCalls } from '@x/langchain-mcp/langgraph'
import { bearerAuth, createGateway } from '@x/mcp-gateway'
import { bullmqEngine, redisStore } from '@x/mcp-gateway-redis'
import { paymentAgent, watchDelay } from './payment-graph.ts'

export interface TaskProcessSpec {
  readonly role: 'gateway' | 'worker' | 'agent'
  /** Files that all processes share: checkpoints, and the log of executions. */
  readonly folder: string
  readonly redisUrl: string
  /** Port of a gateway. */
  readonly port: number
  /** URL of the gateways, for an agent. */
  readonly url: string
}

/** A call that the model of an agent makes. */
export interface PaymentCall {
  readonly tool: 'pay' | 'order'
  readonly args: {
    /** Unique in all runs. */
    readonly key: string
    /** Duration of each node, in milliseconds. */
    readonly ms: number
    /** True if the graph asks a person for permission before it charges. */
    readonly asks: boolean
  }
}

/** Tells an agent to begin a thread, or to continue it. */
export interface Turn {
  readonly thread: string
  readonly calls: readonly PaymentCall[]
}

/** Answer of an agent. */
export interface TurnEnd {
  readonly thread: string
  /** Text of each result, by the key of the call. A call has one. */
  readonly results?: Readonly<Record<string, readonly string[]>>
  readonly error?: string
}

const spec: TaskProcessSpec = JSON.parse(process.argv[2] ?? '{}')
const { role, folder, redisUrl, port, url } = spec
const TOKEN = 'token-of-the-agent'
async function startGateway(): Promise<void> {
  const offered = paymentAgent(folder)
  const shared = { url: redisUrl, prefix: 'chaos' }
  const gateway = createGateway({
    agents: { pay: offered, order: offered },
    auth: bearerAuth(TOKEN),
    store: redisStore({ ...shared, onWarning() {} }),
    engine: bullmqEngine({ ...shared, onWarning() {} }),
    stateKey: 'the same in all processes, and long enough',
    requestsPerMinute: 0,
    tools: { overrides: { order: { tasks: 'always' } } },
    resultTtlMs: 600_000,
    log: false,
  })
  if (role === 'worker') {
    watchDelay(() => process.send?.({ type: 'late' }))
    await gateway.work()
  } else await gateway.listen({ port })
}

/** Continues threads as the driver says, from their checkpoints. */
async function startAgent(): Promise<void> {
  const mcp = createMcpTools({
    servers: { shop: { url, headers: { authorization: `Bearer ${TOKEN}` } } },
    onServerError: 'throw',
    openTelemetry: false,
  })
  const checkpointer = new SqliteSaver(join(folder, 'agent.db'))
  const store = new SqliteStore(join(folder, 'agent-store.db'))

  async function resultsOf({ thread, calls }: Turn): Promise<Record<string, string[]>> {
    const toolCalls = calls.map(({ tool, args }) => ({
      type: 'tool_call' as const,
      id: args.key,
      name: tool,
      args,
    }))
    const graph = new StateGraph(MessagesAnnotation)
      .addNode('model', ({ messages }) => ({
        messages: messages.some(isToolMessage)
          ? new AIMessage('done')
          : new AIMessage({ content: '', tool_calls: toolCalls }),
      }))
      .addNode('tools', new ToolNode(await mcp.listTools()))
      .addEdge('__start__', 'model')
      .addConditionalEdges('model', fanOutToolCalls(), ['tools', '__end__'])
      .addEdge('tools', 'model')
      .compile({ checkpointer, store })
    const config = { configurable: { thread_id: thread }, durability: 'sync' as const }
    for (;;) {
      const { tasks, values } = await graph.getState(config)
      const messages: unknown = values['messages']
      if (!Array.isArray(messages)) {
        await graph.invoke({ messages: [{ role: 'user', content: 'Pay' }] }, config)
        continue
      }
      // Not by `next`, which is also empty when the last task has ended and its checkpoint is not stored yet.
      const last: unknown = messages.at(-1)
      if (AIMessage.isInstance(last) && !last.tool_calls?.length) {
        const answers = messages.filter(isToolMessage)
        return Object.fromEntries(
          calls.map(({ args: { key } }) => [
            key,
            answers.filter(({ tool_call_id: id }) => id === key).map(({ text }) => text),
          ]),
        )
      }
      const questions = tasks.flatMap(({ interrupts }) => interrupts)
      const resumes = questions.map((question) => {
        if (!isElicitationInterrupt(question.value)) throw new TypeError('It is not a question')
        const keys = Object.keys(question.value.requests)
        const answer = { action: 'accept' as const, content: { answer: 'card' } }
        return elicitationResume(question, Object.fromEntries(keys.map((key) => [key, answer])))
      })
      const resume: InterruptResume = Object.assign({}, ...resumes)
      await graph.invoke(questions.length > 0 ? new Command({ resume }) : null, config)
    }
  }

  await mcp.listTools().catch(() => {}) // Redis may be down. The next turn tries again
  process.on('message', (turn: Turn) => {
    const { thread } = turn
    resultsOf(turn)
      .then(
        (results): TurnEnd => ({ thread, results }),
        (error: unknown): TurnEnd => ({ thread, error: String(error) }),
      )
      .then((end) => process.send?.(end, () => {}))
      .catch(() => process.exit(1))
  })
}

process.on('disconnect', () => process.exit())
if (role === 'agent') await startAgent()
else await startGateway()
flushCompileCache() // a killed process loses its compiled code
process.send?.({ type: 'ready' })
