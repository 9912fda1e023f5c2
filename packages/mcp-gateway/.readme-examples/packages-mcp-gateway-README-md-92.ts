import { AIMessage } from '@langchain/core/messages'
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { bearerAuth, createGateway } from '@x/mcp-gateway'
import { Hono } from 'hono'

const graph = new StateGraph(MessagesAnnotation) // or createAgent(…)
  .addNode('answer', ({ messages }) => ({
    messages: [new AIMessage(`You said: ${messages.at(-1)?.text}`)],
  }))
  .addEdge(START, 'answer')
  .addEdge('answer', END)
  .compile()

const gateway = createGateway({
  agents: {
    support: {
      graph,
      description: 'Answers order questions',
      output: (state) => state.messages.at(-1).text,
    },
  },
  auth: bearerAuth(process.env.MCP_TOKEN),
})
export const app: Hono = new Hono().mount('/mcp', gateway.fetch)
export {}
