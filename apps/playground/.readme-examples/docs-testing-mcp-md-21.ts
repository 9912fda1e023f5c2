import { discoverResult, startScriptedServer } from '@x/mcp-testing'

await using server = await startScriptedServer({
  'server/discover': { result: { ...discoverResult, capabilities: { tools: {} } } },
})
export {}
