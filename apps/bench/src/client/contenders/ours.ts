import { McpClient } from '@x/mcp-client'
import { checkResult } from '../checks.ts'
import type { Contender } from '../contenders.ts'
import { ARGS, CLIENT_INFO, TOOL } from '../protocol.ts'

/** `McpClient` with its defaults. */
export async function makeOurs(url: string): Promise<Contender> {
  const client = new McpClient({ url }, { clientInfo: CLIENT_INFO })
  return {
    call: async () => checkResult(await client.callTool(TOOL, ARGS)),
    [Symbol.asyncDispose]: () => client.dispose(),
  }
}
