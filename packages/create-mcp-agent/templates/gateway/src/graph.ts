import { AIMessage } from '@langchain/core/messages'
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'

/**
 * A first graph, without a model, so that it needs no key: it repeats what it is told. Replace it by your own graph, or
 * by an agent with a model:
 *
 *     npm install langchain @langchain/anthropic
 *
 *     import { createAgent } from 'langchain'
 *     export const graph = createAgent({ model: 'anthropic:claude-sonnet-4-5', tools: [] })
 */
export const graph = new StateGraph(MessagesAnnotation)
  .addNode('answer', ({ messages }) => ({
    messages: [new AIMessage(`You said: ${messages.at(-1)?.text}`)],
  }))
  .addEdge(START, 'answer')
  .addEdge('answer', END)
  .compile()
