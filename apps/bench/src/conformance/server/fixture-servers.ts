import { conformanceServer } from '@x/test-kit'
import { McpServers } from '../../../../../packages/mcp-gateway/src/protocol/mcp-servers.ts'

/** Makes a server of the test-kit's fixture wherever a gateway makes one for its agents. */
export class FixtureServers extends McpServers {
  override create(): ReturnType<McpServers['create']> {
    return conformanceServer()
  }
}
