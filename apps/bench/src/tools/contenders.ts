import type { Contender } from '../client/contenders.ts'

/**
 * Who calls the tool, each as an agent would. `control` is bare `undici.request`; `client` is
 * `McpClient.callTool`, what our tools stand on; `plain-tool` is a LangChain tool that does nothing but
 * call it, which is what LangChain itself costs; `ours-live` comes from `createMcpTools`, `ours-cached`
 * from an agent definition, whose tools are compared with the server's before each call.
 */
export const TOOL_CONTENDERS = [
  'control',
  'client',
  'plain-tool',
  'ours-live',
  'ours-cached',
  'langchain-mcp-adapters',
] as const

export type ToolContenderName = (typeof TOOL_CONTENDERS)[number]

/** Loads only the code of the one that is asked for. */
export async function makeToolContender(name: ToolContenderName, url: string): Promise<Contender> {
  switch (name) {
    case 'control': {
      const { makeControl } = await import('../client/contenders/control.ts')
      return makeControl(url)
    }
    case 'client': {
      const { makeOurs } = await import('../client/contenders/ours.ts')
      return makeOurs(url)
    }
    case 'plain-tool': {
      const { makePlainTool } = await import('./contenders/plain-tool.ts')
      return makePlainTool(url)
    }
    case 'ours-live': {
      const { makeOursLive } = await import('./contenders/ours-live.ts')
      return makeOursLive(url)
    }
    case 'ours-cached': {
      const { makeOursCached } = await import('./contenders/ours-cached.ts')
      return makeOursCached(url)
    }
    case 'langchain-mcp-adapters': {
      const { makeLangchainMcpAdapters } =
        await import('../client/contenders/langchain-mcp-adapters.ts')
      return makeLangchainMcpAdapters(url)
    }
  }
}

export function toolContenderNameFrom(text: unknown): ToolContenderName {
  const name = TOOL_CONTENDERS.find((known) => known === text)
  if (name === undefined) throw new TypeError(`There is no contender "${String(text)}"`)
  return name
}
