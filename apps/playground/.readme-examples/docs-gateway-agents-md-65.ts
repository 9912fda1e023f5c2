import { createGateway, langGraphSource } from '@x/mcp-gateway'

const gateway = createGateway({})
const off = gateway.registry.on('changed', ({ plan }) => console.log(plan.version))
await gateway.registry.addSource(langGraphSource('./langgraph.json')) // and removeSource
gateway.registry.status() // sources that failed and why; agents, and when they were seen
export {}
