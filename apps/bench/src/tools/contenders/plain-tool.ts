import { tool } from '@langchain/core/tools'
import { McpClient } from '@x/mcp-client'
import { checkResult } from '../../client/checks.ts'
import type { Contender } from '../../client/contenders.ts'
import type { ARGS } from '../../client/protocol.ts'
import { CLIENT_INFO, TOOL } from '../../client/protocol.ts'
import { contenderFrom } from '../tool-contender.ts'
import { INPUT_SCHEMA } from '../tool-definition.ts'

/** The least that a LangChain tool over our client can cost. */
export async function makePlainTool(url: string): Promise<Contender> {
  const client = new McpClient({ url }, { clientInfo: CLIENT_INFO })
  const plain = tool(
    async (args: typeof ARGS) => {
      const result = await client.callTool(TOOL, args)
      checkResult(result)
      const [block] = result.content
      return [block?.type === 'text' ? block.text : '', []]
    },
    { name: TOOL, schema: INPUT_SCHEMA, responseFormat: 'content_and_artifact' },
  )
  return contenderFrom(plain, () => client.dispose())
}
