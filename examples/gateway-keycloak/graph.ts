import { AIMessage } from '@langchain/core/messages'
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'

const ORDERS = new Map([
  ['17', 'on its way'],
  ['18', 'delivered'],
])

/** Answers without a model, so that the example needs no key. */
export const graph = new StateGraph(MessagesAnnotation)
  .addNode('answer', ({ messages }) => {
    const [id = '?'] = messages.at(-1)?.text.match(/\d+/) ?? []
    return { messages: [new AIMessage(`Order ${id} is ${ORDERS.get(id) ?? 'unknown'}.`)] }
  })
  .addEdge(START, 'answer')
  .addEdge('answer', END)
  .compile()
