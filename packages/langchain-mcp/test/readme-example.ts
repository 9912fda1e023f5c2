import { createMcpTools } from '@x/langchain-mcp'
import { startLegacyServer } from '@x/mcp-testing' // takes the place of your server

await using shop = await startLegacyServer()
await using mcp = createMcpTools({ servers: { shop: { url: shop.url } } })
const tools = await mcp.listTools() // for createAgent({ model, tools }), or new ToolNode(tools)
const cart = tools.find(({ name }) => name === 'cart_add')

console.log(await cart?.invoke({ item: 'apples' }))
shop.forgetSessions() // like a server that restarts
console.log(await cart?.invoke({ item: 'pears' }))
