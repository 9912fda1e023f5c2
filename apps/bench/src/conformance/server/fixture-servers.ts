import { conformanceServer } from '@x/mcp-testing'
import type { ServerMaker } from '../../../../../packages/mcp-gateway/src/protocol/servers/server-maker.ts'

/** Makes a server of the fixture of @x/mcp-testing wherever a gateway makes one for its agents. */
export const fixtureServers: ServerMaker = {
  made: 0, // nobody counts
  create: () => conformanceServer(),
  createFor: () => conformanceServer(),
}
