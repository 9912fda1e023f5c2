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
import type { GraphDefinition, RunnableGraph } from '@x/mcp-gateway'

type Answer = (question: string, config: LangGraphRunnableConfig) => string | Promise<string>

/** A graph of one node, which can be interrupted. */
export function graphThat(answer: Answer): RunnableGraph {
  return new StateGraph(MessagesAnnotation)
    .addNode('answer', async ({ messages }, config) => {
      const text = await answer(messages.at(-1)?.text ?? '', config)
      return { messages: [new AIMessage(text)] }
    })
    .addEdge(START, 'answer')
    .addEdge('answer', END)
    .compile({ checkpointer: new MemorySaver() })
}

/** What clients meet at the gateway: an agent for each thing that a client can do with one. */
export function graphs(onJoin: () => void): Readonly<Record<string, GraphDefinition>> {
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
      description: 'Is on its way until the gate is open',
      graph: graphThat(async (_, { writer }) => {
        writer?.({ type: 'status', text: 'On my way' })
        await open.promise
        return 'Arrived'
      }),
    },
    gate: {
      description: 'Opens',
      graph: graphThat(() => {
        open.resolve()
        return 'It is open'
      }),
    },
    shirts: {
      description: 'Sells shirts, and asks for the size',
      graph: graphThat(() => `A shirt in ${String(interrupt('Which size?'))}`),
    },
    endless: {
      description: 'Works until it is stopped',
      graph: graphThat(async (_, { signal, writer }) => {
        writer?.({ type: 'status', text: 'Begun' })
        await aborted(signal)
        stopped.resolve()
        return 'never'
      }),
    },
    witness: {
      description: 'Answers when the endless agent was stopped',
      graph: graphThat(async () => {
        await stopped.promise
        return 'It was stopped'
      }),
    },
    host: {
      description: 'Lets another agent in',
      graph: graphThat(() => {
        onJoin()
        return 'Somebody came'
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
