import { createMcpAgent, openTools } from './agent.ts'

const content = process.argv.slice(2).join(' ') || 'echo {"message":"Hello"}'
const mcp = openTools()
try {
  const agent = await createMcpAgent(mcp)
  const { messages } = await agent.invoke({ messages: [{ role: 'user', content }] })
  console.log(messages.at(-1)?.text)
} finally {
  await mcp.close() // the session stays on the server, for the next process
}
