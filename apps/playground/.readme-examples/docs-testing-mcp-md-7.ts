import { startScriptedServer } from '@x/mcp-testing'

await using server = await startScriptedServer({
  'tools/list': { result: { tools: [], ttlMs: 0, cacheScope: 'private' } },
  'tools/call': [{ status: 503 }, { result: { content: [] }, end: 'truncate' }], // one after the other
})
console.log(server.violations) // rules of 2026-07-28 that the client broke
export {}
