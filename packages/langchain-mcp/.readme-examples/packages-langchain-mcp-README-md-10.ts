import { createMcpTools } from '@x/langchain-mcp'

await using mcp = createMcpTools({ servers: { shop: { url: 'https://shop.example/mcp' } } })
const tools = await mcp.listTools() // for createAgent({ model, tools }), or new ToolNode(tools)
const cart = tools.find(({ name }) => name === 'cart_add')
console.log(await cart?.invoke({ item: 'apples' }))
export {}
