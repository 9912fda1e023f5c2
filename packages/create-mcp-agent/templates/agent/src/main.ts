import { createMcpAgent, openTools } from './agent.ts'

const content = process.argv.slice(2).join(' ') || 'echo {"message":"Hello"}'
const mcp = openTools()
try {
  const agent = await createMcpAgent(mcp)
  const { messages } = await agent.invoke({ messages: [{ role: 'user', content }] })
  console.log(messages.at(-1)?.text)
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  console.error('Is the MCP server running? `npm run server` starts one to try.')
  process.exitCode = 1
} finally {
  await mcp.close() // the session stays on the server, for the next process
}
