import { createGateway, type AgentSource } from '@x/mcp-gateway'

const clock: AgentSource = {
  name: 'clock',
  isLocal: true, // its agents stay until the source says that they are gone
  async start(listener) {
    const description = 'Tells the time'
    listener.found({ id: 'clock', name: 'clock', description, skills: [], health: 'healthy' })
  },
  async *run() {
    yield { type: 'done', text: new Date().toISOString() }
  },
  async close() {},
}
const gateway = createGateway({ sources: [clock] })
const { url } = await gateway.listen({ port: 0 })
console.log(`An MCP server with one tool: ${url}`)
await gateway.close()
export {}
