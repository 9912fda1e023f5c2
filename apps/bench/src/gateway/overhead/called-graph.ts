import { AIMessage, HumanMessage } from '@langchain/core/messages'
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { echoOf, MESSAGE } from '../protocol.ts'
import type { CalledAgent } from './called-agent.ts'

/** A compiled graph with one node. */
export function calledGraph(): CalledAgent {
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('answer', ({ messages }) => ({
      messages: [new AIMessage(echoOf(messages.at(-1)?.text ?? ''))],
    }))
    .addEdge(START, 'answer')
    .addEdge('answer', END)
    .compile()
  return {
    options: { agents: { echo: { graph, description: 'Says again what it was told.' } } },
    tool: 'echo',
    answer: echoOf(MESSAGE),
    call: async () => {
      const { messages } = await graph.invoke({ messages: [new HumanMessage(MESSAGE)] })
      return messages.at(-1)?.text ?? ''
    },
  }
}
