import { createMcpToolsFromAgent } from '@x/langchain-mcp'
import { StaticServerDirectory } from '@x/mcp-client'
import type { Contender } from '../../client/contenders.ts'
import { CLIENT_INFO } from '../../client/protocol.ts'
import { contenderFrom } from '../tool-contender.ts'
import { DEFINITION } from '../tool-definition.ts'

/** A tool of an agent definition: its stored schema is compared with the server's before each call. */
export async function makeOursCached(url: string): Promise<Contender> {
  const resource = {
    $resourceType: 'mcp',
    name: 'Bench',
    slug: 'bench',
    availableTools: [DEFINITION],
  }
  const { tools, clients } = await createMcpToolsFromAgent(
    { resources: [resource] },
    { directory: new StaticServerDirectory({ bench: url }), clientInfo: CLIENT_INFO },
  )
  const [tool] = tools
  if (tool === undefined) throw new Error('The definition has given no tool')
  return contenderFrom(tool, async () => {
    await Promise.all(clients.map((client) => client.dispose()))
  })
}
