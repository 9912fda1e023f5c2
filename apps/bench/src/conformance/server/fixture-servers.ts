import { conformanceServer } from './conformance-server.ts'
import type { ServerMaker } from '../../../../../packages/mcp-gateway/src/protocol/servers/server-maker.ts'

/** Makes a server of the conformance fixture wherever a gateway makes one for its agents. */
export const fixtureServers: ServerMaker = {
  made: 0, // nobody counts
  create: () => conformanceServer(),
  createFor: () => conformanceServer(),
}
