import { startLegacyServer, startRecordingProxy } from '@x/mcp-testing'

await using server = await startLegacyServer()
await using proxy = await startRecordingProxy(server.url) // the client connects to proxy.url
proxy.inject({ match: ({ toolName }) => toolName === 'cart_add', times: 1, action: 'reset-after' })
const mark = proxy.mark()
// … calls …
mark.count({ rpcMethod: 'initialize' }) // since the mark
mark.postConnections() // new connections that carried a POST
export {}
