import { createGateway, langGraphSource } from '@x/mcp-gateway'

const gateway = createGateway({ sources: [langGraphSource('./langgraph.json')] })
const { url } = await gateway.listen({ port: 8000 })
console.log(url) // http://127.0.0.1:8000/mcp
export {}
