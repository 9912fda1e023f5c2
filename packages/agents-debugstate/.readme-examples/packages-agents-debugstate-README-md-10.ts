import { SessionInfoDebugStateFactory } from '@x/agents-debugstate'
import { SqliteDebugStateStore, createDebugStateServer } from '@x/agents-debugstate/server'

const store = new SqliteDebugStateStore('.debugstate/state.db')
const server = createDebugStateServer({ store })
const baseUrl = await server.listen()
const sessions = new SessionInfoDebugStateFactory({ baseUrl, agentId: 'my-agent' })

const shop = sessions.createSession({ slug: 'shop', mcpUrl: 'https://shop.example/mcp' })
process.stdout.write(`session of the last process: ${await shop.getSessionId()}\n`)
await shop.setSessionId(`opened-by-${process.pid}`)
await shop.flush()

for (const resource of [sessions, server, store]) await resource.close()
export {}
