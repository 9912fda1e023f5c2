import { createHash } from 'node:crypto'
import { McpClient, SessionInfoFactory, type McpServer, type SessionScope } from '@x/mcp-client'
import { FileSessionInfo } from '@x/mcp-transport'

class SessionFiles extends SessionInfoFactory {
  override createSession({ mcpUrl }: McpServer, { principal, thread }: SessionScope = {}) {
    const key = createHash('sha256').update(JSON.stringify([mcpUrl, principal, thread]))
    return new FileSessionInfo(`/var/lib/agent/sessions/${key.digest('hex')}.json`)
  }
}

const options = { sessionInfoFactory: new SessionFiles(), scope: { principal: 'ada' } }
const client = new McpClient({ url: 'https://shop.example/mcp' }, options)
export {}
