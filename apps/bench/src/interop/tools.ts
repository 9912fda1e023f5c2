import type { StructuredToolInterface } from '@langchain/core/tools'
import { loadMcpTools } from '@langchain/mcp-adapters'
import type { SdkClient } from './sdk-clients.ts'

type AdaptersClient = Parameters<typeof loadMcpTools>[1]

/** The tools that LangChain's adapters make of a client. They are typed for SDK v1, and use two of its methods. */
export async function toolsOfAdapters(client: SdkClient): Promise<ToolCalls> {
  if (!isForAdapters(client)) throw new TypeError('Not a client that the adapters can use')
  return callsOf(await loadMcpTools('shop', client))
}

function isForAdapters(client: object): client is AdaptersClient {
  return 'listTools' in client && 'callTool' in client
}

/** What a tool is here: something with a name that takes arguments. */
export interface ToolCalls {
  readonly names: readonly string[]
  /** The whole answer as JSON: its form is each package's own. */
  readonly call: (name: string, args?: object, signal?: AbortSignal) => Promise<string>
}

export function callsOf(
  tools: readonly Pick<StructuredToolInterface, 'name' | 'invoke'>[],
): ToolCalls {
  return {
    names: tools.map(({ name }) => name),
    async call(name, args = {}, signal?: AbortSignal) {
      const tool = tools.find((one) => one.name === name)
      if (tool === undefined) throw new Error(`There is no tool "${name}"`)
      const answer: unknown = await tool.invoke(args, signal && { signal })
      return JSON.stringify(answer) ?? ''
    },
  }
}
