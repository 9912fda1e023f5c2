import { MultiServerMCPClient } from '@langchain/mcp-adapters'
import type { Contender } from '../contenders.ts'
import { ARGS, TEXT, TOOL } from '../protocol.ts'

/** A tool of LangChain's own adapters, called as an agent calls it: what a `StructuredTool` does is in it. */
export async function makeLangchainMcpAdapters(url: string): Promise<Contender> {
  const client = new MultiServerMCPClient({ mcpServers: { bench: { transport: 'http', url } } })
  const tool = (await client.getTools()).find(({ name }) => name === TOOL)
  if (tool === undefined) throw new Error('The adapters have not found the tool')
  return {
    async call() {
      const result: unknown = await tool.invoke(ARGS)
      if (result !== TEXT) throw new Error(`A wrong result: ${JSON.stringify(result)}`)
    },
    [Symbol.asyncDispose]: () => client.close(),
  }
}
