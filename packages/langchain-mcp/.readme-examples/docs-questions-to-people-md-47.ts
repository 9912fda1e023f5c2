import { MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import { createMcpTools } from '@x/langchain-mcp'
import { fanOutToolCalls } from '@x/langchain-mcp/langgraph'
import { initChatModel } from 'langchain'

const mcp = createMcpTools({ servers: { shop: { url: 'https://shop.example/mcp' } } })
const tools = await mcp.listTools()
const chat = await initChatModel('anthropic:claude-sonnet-4-5')
const model = chat.bindTools(tools)
const graph = new StateGraph(MessagesAnnotation)
  .addNode('model', async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
  .addNode('tools', new ToolNode(tools))
  .addEdge(START, 'model')
  .addConditionalEdges('model', fanOutToolCalls()) // a graph task for each call
  .addEdge('tools', 'model')
  .compile()
export {}
