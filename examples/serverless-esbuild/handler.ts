import { AsyncLocalStorage } from 'node:async_hooks'
import { FileSessionInfoFactory, McpClient } from '@x/mcp-client'

const { SHOP_URL = '', SESSIONS_FOLDER = '/mnt/sessions' } = process.env
const customers = new AsyncLocalStorage<string>()

/** Outside the handler: requests that reach the same instance use one connection. */
const client = new McpClient(
  { url: SHOP_URL },
  {
    sessionInfoFactory: new FileSessionInfoFactory(SESSIONS_FOLDER), // shared by all instances
    scope: () => ({ principal: customers.getStore() }), // one session for each customer
  },
)

interface Order {
  readonly customer: string
  readonly item: string
}

export default {
  async fetch(request: Request): Promise<Response> {
    const { customer, item }: Order = JSON.parse(await request.text())
    const call = () => client.callTool('cart_add', { item })
    const { structuredContent } = await customers.run(customer, call)
    return Response.json(structuredContent)
  },
}
