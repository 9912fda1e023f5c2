import { bearerAuth, createGateway } from '@x/mcp-gateway'
import { Hono } from 'hono'
import { graph } from './graph.ts'

// As users write it: a graph as an MCP server, in an application that a langgraph.json names.
const gateway = createGateway({
  agents: {
    support: {
      graph,
      description: 'Answers order questions',
      output: (state) => state.messages.at(-1).text,
    },
  },
  auth: bearerAuth(process.env['MCP_TOKEN']),
})
export const app = new Hono().mount('/mcp', gateway.fetch)
