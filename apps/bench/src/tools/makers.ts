import { catalogueOf } from './catalogue.ts'

/** Who makes tools. */
export const MAKERS = ['ours', 'langchain-mcp-adapters'] as const

export type MakerName = (typeof MAKERS)[number]

export interface MadeTools {
  readonly tools: readonly { readonly schema: unknown }[]
  dispose(): Promise<void>
}

/** Makes new definitions, and returns what makes tools of them. */
export type Maker = (count: number) => () => Promise<MadeTools>

export async function makerNamed(name: unknown): Promise<Maker> {
  switch (name) {
    case 'ours':
      return oursMaker()
    case 'langchain-mcp-adapters':
      return adaptersMaker()
    default:
      throw new TypeError(`Nobody called "${String(name)}" makes tools`)
  }
}

/** All of `createMcpToolsFromAgent`: the definition is checked, and a client is made. */
async function oursMaker(): Promise<Maker> {
  const { createMcpToolsFromAgent } = await import('@x/langchain-mcp')
  return (count) => {
    const availableTools = catalogueOf(count)
    const resource = { $resourceType: 'mcp', name: 'Bench', slug: 'bench', availableTools }
    return async () => {
      const { tools, clients } = await createMcpToolsFromAgent({ resources: [resource] })
      return {
        tools,
        async dispose() {
          await Promise.all(clients.map((client) => client.dispose()))
        },
      }
    }
  }
}

/**
 * `loadMcpTools` with a client that has the list at hand: these adapters know no stored definitions, so
 * what is left out is what the list would have cost them.
 */
async function adaptersMaker(): Promise<Maker> {
  const { loadMcpTools } = await import('@langchain/mcp-adapters')
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js')
  return (count) => {
    const tools = catalogueOf(count)
    const client = new Client({ name: 'bench', version: '1.0.0' })
    client.listTools = async () => ({ tools })
    return async () => ({ tools: await loadMcpTools('bench', client), dispose: async () => {} })
  }
}
