import { createMcpTools } from '@x/langchain-mcp'
import type { Contender } from '../../client/contenders.ts'
import { CLIENT_INFO, TOOL } from '../../client/protocol.ts'
import { contenderFrom } from '../tool-contender.ts'

/** A tool of `createMcpTools` with its defaults. */
export async function makeOursLive(url: string): Promise<Contender> {
  const mcp = createMcpTools({ servers: { bench: { url } }, clientInfo: CLIENT_INFO })
  const tool = (await mcp.listTools()).find(({ name }) => name === TOOL)
  if (tool === undefined) throw new Error('The server has not listed the tool')
  return contenderFrom(tool, () => mcp.close())
}
