import { startLegacyServer } from '@x/mcp-testing'
import type { TestTool } from '@x/mcp-testing'

/** Takes the bearer token as the name of the customer. */
const order: TestTool = {
  name: 'order',
  inputSchema: { type: 'object', properties: { item: { type: 'string' } } },
  run: ({ item }, { principal }) => `${String(item)} for ${principal}`,
}

export const startShop = () => startLegacyServer({ tools: [order] })
