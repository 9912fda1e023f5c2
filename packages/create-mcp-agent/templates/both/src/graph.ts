import { createMcpAgent, openTools } from './agent.ts'

const mcp = openTools()

/** The gateway calls this function for each run. An MCP server that is down fails that run only. */
export const graph = () => createMcpAgent(mcp)
