import { once } from 'node:events'
import { get } from 'node:http'
import { fileURLToPath } from 'node:url'
import { AIMessage } from '@langchain/core/messages'
import {
  END,
  interrupt,
  MemorySaver,
  MessagesAnnotation,
  START,
  StateGraph,
} from '@langchain/langgraph'
import type { LangGraphRunnableConfig } from '@langchain/langgraph'
import { createGateway } from '@x/mcp-gateway'
import type {
  AgentListener,
  AgentSource,
  Gateway,
  GatewayOptions,
  GraphDefinition,
  RunnableGraph,
} from '@x/mcp-gateway'

/** The gateway that all clients use, before it listens. */
export function interopGateway(options: GatewayOptions = {}): Gateway {
  const late = new LateAgent()
  return createGateway({
    agents: graphs(() => late.join()),
    sources: [late],
    http: { shutdownGraceMs: 0 },
    ...options,
  })
}

export interface ServedGateway extends AsyncDisposable {
  readonly url: string
  /** Replaces the gateway with a new one, which does not have its sessions. */
  readonly replace: () => Promise<void>
}

/** Serves the gateway over HTTP. */
export async function serveInterop(options: GatewayOptions = {}): Promise<ServedGateway> {
  let gateway = interopGateway(options)
  const { url, port } = await gateway.listen({ port: 0 })
  return {
    url,
    replace: async () => {
      await gateway.close()
      gateway = interopGateway(options)
      await gateway.listen({ port })
      await isReady(port)
    },
    [Symbol.asyncDispose]: () => gateway.close(),
  }
}

/** Waits for `/readyz` on a new connection, while clients notice that theirs are closed. */
async function isReady(port: number): Promise<void> {
  const request = get({ host: '127.0.0.1', port, path: '/readyz', agent: false })
  const [response] = await once(request, 'response')
  response.resume()
  await once(response, 'end')
}

type Answer = (question: string, config: LangGraphRunnableConfig) => string | Promise<string>

/** A graph with one node, which can be interrupted. */
function graphThat(answer: Answer): RunnableGraph {
  return new StateGraph(MessagesAnnotation)
    .addNode('answer', async ({ messages }, config) => {
      const text = await answer(messages.at(-1)?.text ?? '', config)
      return { messages: [new AIMessage(text)] }
    })
    .addEdge(START, 'answer')
    .addEdge('answer', END)
    .compile({ checkpointer: new MemorySaver() })
}

/** An agent for each feature that a client can use. */
function graphs(onJoin: () => void): Readonly<Record<string, GraphDefinition>> {
  const stopped = Promise.withResolvers<void>()
  const open = Promise.withResolvers<void>()
  return {
    support: {
      description: 'Answers order questions',
      skills: [
        {
          id: 'ask',
          name: 'Ask',
          description: 'Answers order questions',
          examples: ['Where is order 7?'],
        },
      ],
      graph: graphThat((question) => `You said: ${question}`),
    },
    walker: {
      description: 'Reports progress, and answers when the gate is open',
      graph: graphThat(async (_, { writer }) => {
        writer?.({ type: 'status', text: 'On my way' })
        await open.promise
        return 'Arrived'
      }),
    },
    gate: {
      description: 'Opens the gate',
      graph: graphThat(() => {
        open.resolve()
        return 'It is open'
      }),
    },
    shirts: {
      description: 'Asks for a size before it answers',
      graph: graphThat(() => `A shirt in ${String(interrupt('Which size?'))}`),
    },
    endless: {
      description: 'Runs until it is cancelled',
      graph: graphThat(async (_, { signal, writer }) => {
        writer?.({ type: 'status', text: 'Begun' })
        await aborted(signal)
        stopped.resolve()
        return 'never'
      }),
    },
    witness: {
      description: 'Answers when the endless agent was cancelled',
      graph: graphThat(async () => {
        await stopped.promise
        return 'It was stopped'
      }),
    },
    host: {
      description: 'Lets another agent join',
      graph: graphThat(() => {
        onJoin()
        return 'An agent joined'
      }),
    },
    painter: {
      description: 'Makes a file',
      graph: graphThat((subject, { writer }) => {
        const text = `A picture of ${subject}`
        writer?.({ type: 'artifact', name: 'picture.txt', mimeType: 'text/plain', text })
        return 'Here it is'
      }),
    },
  }
}

function aborted(signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) resolve()
    signal?.addEventListener('abort', () => resolve(), { once: true })
  })
}

/** An agent, `late`, that joins on demand. */
class LateAgent implements AgentSource {
  readonly name = 'late-agent'
  readonly isLocal = true
  #listener: AgentListener | undefined

  async start(listener: AgentListener): Promise<void> {
    this.#listener = listener
  }

  join(): void {
    this.#listener?.found({
      id: 'late',
      name: 'late',
      description: 'Joined later',
      skills: [],
      health: 'healthy',
    })
  }

  async *run(): ReturnType<AgentSource['run']> {
    yield { type: 'done', text: 'Better late than never' }
  }

  async close(): Promise<void> {}
}

/** Starts this file as a program that serves the gateway over stdio. */
export const STDIO_COMMAND = {
  command: process.execPath,
  args: ['--conditions=mcp-source', fileURLToPath(import.meta.url)],
}

if (import.meta.main) {
  const gateway = interopGateway()
  await gateway.serveStdio().closed
  await gateway.close()
}
