import { AIMessage } from '@langchain/core/messages'
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'

/** A graph without a model, so that the example works without a key. */
export const graph = new StateGraph(MessagesAnnotation)
  .addNode('answer', ({ messages }) => ({
    messages: [new AIMessage(`You said: ${messages.at(-1)?.text}`)],
  }))
  .addEdge(START, 'answer')
  .addEdge('answer', END)
  .compile()
