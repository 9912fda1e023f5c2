import { agentDefinitionFrom, createMcpToolsFromAgent } from '@x/langchain-mcp'
import { StaticServerDirectory } from '@x/mcp-client'

const discoveryMode = { type: 'dynamic', allowAll: true } // all tools of the server
const shop = {
  $resourceType: 'mcp',
  name: 'Shop',
  slug: 'shop',
  toolsConfiguration: { discoveryMode },
}
const agent = agentDefinitionFrom({ resources: [shop] }) // usually the contents of agent.json

const directory = new StaticServerDirectory({ shop: 'https://shop.example/mcp' })
const { tools, clients } = await createMcpToolsFromAgent(agent, { directory })
const cart = tools.find(({ name }) => name === 'cart_add')
console.log(await cart?.invoke({ item: 'apples' })) // or createAgent({ model, tools })
await Promise.all(clients.map((client) => client.dispose()))
export {}
