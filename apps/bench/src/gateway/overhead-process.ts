// A gateway with one agent, and a caller that calls the agent directly: `langgraph`, or `a2a <url>`.
import { randomUUID } from 'node:crypto'
import { bearerAuth, createGateway } from '@x/mcp-gateway'
import type { GatewayOptions } from '@x/mcp-gateway'
import { startCoverage } from '../measure/coverage.ts'
import type { PathCounts } from '../measure/coverage.ts'
import { median } from '../measure/figure.ts'
import { Connection } from '../measure/raw-http.ts'
import { cpuUs, serve } from '../measure/worker.ts'
import {
  callOf,
  checkAnswer,
  echoOf,
  INITIALIZE,
  MESSAGE,
  PATH,
  postOf,
  TOKEN,
} from './protocol.ts'
import type { Era } from './protocol.ts'

interface CalledAgent {
  readonly options: Pick<GatewayOptions, 'agents' | 'sources'>
  readonly tool: string
  /** Its answer to `MESSAGE`. */
  readonly answer: string
  /** Sends `MESSAGE` as a user without a gateway does. */
  readonly call: () => Promise<string>
  /** Sets a function that is called before the graph streams. */
  readonly onStream?: ((listener: () => void) => void) | undefined
}

const [, , kind, url = ''] = process.argv
const agent = kind === 'a2a' ? await a2aAgent(url) : await graphAgent()

const gateway = createGateway({
  ...agent.options,
  auth: bearerAuth({ bench: { token: TOKEN, scopes: ['*'] } }),
  http: { path: PATH, metricsPath: '/metrics' },
  requestsPerMinute: 0,
})
const { port } = await gateway.listen({ port: 0 })
await gateway.registry.start()

const api = {
  port: () => port,
  cpu: cpuUs,
  called: () => ({ tool: agent.tool, answer: agent.answer }),
  /** Calls the agent directly. Returns the median latency. */
  async direct(times: number) {
    const latencies: number[] = []
    for (let turn = 0; turn < times; turn += 1) {
      const startedAt = performance.now()
      const answer = await agent.call()
      latencies.push(performance.now() - startedAt)
      if (answer !== agent.answer) throw new Error(`Wrong answer: ${answer.slice(0, 200)}`)
    }
    return median(latencies)
  },
  /** Counts our functions and files that one warm call runs, until the graph streams. */
  async path(era: Era): Promise<PathCounts> {
    const connection = await Connection.open(port)
    const opened = era === 'legacy' ? await connection.request(postOf(era, INITIALIZE)) : undefined
    const call = async (id: number): Promise<void> => {
      const request = postOf(era, callOf(id, agent.tool), opened?.session)
      checkAnswer((await connection.request(request)).body, id, agent.answer)
    }
    for (let id = 1; id <= 100; id += 1) await call(id)
    let counts: PathCounts | undefined
    const take = startCoverage()
    agent.onStream?.(() => (counts ??= take()))
    await call(101)
    await connection.close()
    if (counts === undefined) throw new Error('The gateway did not call stream() of the graph')
    return counts
  },
}
export type OverheadApi = typeof api
serve(api)

/** A compiled graph with one node. */
async function graphAgent(): Promise<CalledAgent> {
  const { AIMessage, HumanMessage } = await import('@langchain/core/messages')
  const { END, MessagesAnnotation, START, StateGraph } = await import('@langchain/langgraph')
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('answer', ({ messages }) => ({
      messages: [new AIMessage(echoOf(messages.at(-1)?.text ?? ''))],
    }))
    .addEdge(START, 'answer')
    .addEdge('answer', END)
    .compile()
  const stream = graph.stream.bind(graph)
  let listener: (() => void) | undefined
  Object.assign(graph, {
    stream: (...args: Parameters<typeof stream>) => {
      listener?.()
      return stream(...args)
    },
  })
  return {
    onStream: (given) => (listener = given),
    options: { agents: { echo: { graph, description: 'Repeats the message.' } } },
    tool: 'echo',
    answer: echoOf(MESSAGE),
    async call() {
      const { messages } = await graph.invoke({ messages: [new HumanMessage(MESSAGE)] })
      return messages.at(-1)?.text ?? ''
    },
  }
}

/** A streaming agent of another process, called with the client of `@a2a-js/sdk`. */
async function a2aAgent(card: string): Promise<CalledAgent> {
  const { Role } = await import('@a2a-js/sdk')
  const { ClientFactory } = await import('@a2a-js/sdk/client')
  const { a2aSource } = await import('@x/mcp-gateway-a2a')
  const client = await new ClientFactory().createFromUrl(card)
  const content = { $case: 'text', value: MESSAGE } as const
  const part = { content, filename: '', mediaType: 'text/plain', metadata: {} }
  return {
    options: { sources: [a2aSource({ cards: [card], trustedOrigins: [new URL(card).origin] })] },
    tool: 'weather_forecast',
    answer: `It will rain at ${MESSAGE}.`,
    async call() {
      const message = {
        messageId: randomUUID(),
        contextId: '',
        taskId: '',
        role: Role.ROLE_USER,
        parts: [part],
        metadata: {},
        extensions: [],
        referenceTaskIds: [],
      }
      const request = { tenant: '', message, configuration: undefined, metadata: undefined }
      let text = ''
      for await (const { payload } of client.sendMessageStream(request)) {
        if (payload?.$case !== 'artifactUpdate') continue
        for (const { content: answered } of payload.value.artifact?.parts ?? []) {
          if (answered?.$case === 'text') text += answered.value
        }
      }
      return text
    },
  }
}
