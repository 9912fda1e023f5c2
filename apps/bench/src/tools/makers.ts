import { PROTOCOL_VERSION } from '../client/protocol.ts'
import { catalogueOf } from './catalogue.ts'

/** Who makes tools. */
export const MAKERS = [
  'ours',
  'langchain-mcp-adapters',
  'langchain-mcp-adapters-conversion',
  'langchain-mcp-adapters-listed',
] as const

export type MakerName = (typeof MAKERS)[number]

export interface MadeTools {
  readonly tools: readonly { readonly schema: unknown }[]
  dispose(): Promise<void>
}

/** Makes new definitions, and returns what makes tools of them. */
export type Maker = (count: number) => () => Promise<MadeTools>

/** `url` is that of a server that lists as many tools as are to be made. */
export async function makerNamed(name: unknown, url: string): Promise<Maker> {
  switch (name) {
    case 'ours':
      return oursMaker()
    case 'langchain-mcp-adapters':
      return adaptersMaker(url)
    case 'langchain-mcp-adapters-conversion':
      return conversionMaker()
    case 'langchain-mcp-adapters-listed':
      return listedMaker()
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

/** What a user of the adapters does to have tools: a client, a session, a list, tools. */
async function adaptersMaker(url: string): Promise<Maker> {
  const { MultiServerMCPClient } = await import('@langchain/mcp-adapters')
  return () => async () => {
    const client = new MultiServerMCPClient({ mcpServers: { bench: { transport: 'http', url } } })
    return { tools: await client.getTools(), dispose: () => client.close() }
  }
}

/**
 * `loadMcpTools` with a client that has the list at hand: these adapters know no stored definitions, so
 * what is left out is what the list would have cost them.
 */
async function conversionMaker(): Promise<Maker> {
  const { loadMcpTools } = await import('@langchain/mcp-adapters')
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js')
  return (count) => {
    const tools = catalogueOf(count)
    const client = new Client({ name: 'bench', version: '1.0.0' })
    client.listTools = async () => ({ tools })
    return async () => ({ tools: await loadMcpTools('bench', client), dispose: async () => {} })
  }
}

/**
 * The same with a client of the SDK that is connected in memory, and reads and checks the list before it
 * hands it over: what these adapters cannot do without, wherever the server is.
 */
async function listedMaker(): Promise<Maker> {
  const { loadMcpTools } = await import('@langchain/mcp-adapters')
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js')
  const { InMemoryTransport } = await import('@modelcontextprotocol/sdk/inMemory.js')
  const result = {
    protocolVersion: PROTOCOL_VERSION,
    capabilities: { tools: {} },
    serverInfo: { name: 'bench', version: '1.0.0' },
  }
  let text = ''
  const [near, far] = InMemoryTransport.createLinkedPair()
  far.onmessage = async (message) => {
    if (!('id' in message) || !('method' in message)) return
    const { id, method } = message
    const answer = method === 'initialize' ? result : { tools: toolsFrom(JSON.parse(text)) }
    await far.send({ jsonrpc: '2.0', id, result: answer })
  }
  await far.start()
  const client = new Client({ name: 'bench', version: '1.0.0' })
  await client.connect(near)
  return (count) => {
    text = JSON.stringify(catalogueOf(count))
    return async () => ({ tools: await loadMcpTools('bench', client), dispose: async () => {} })
  }
}

function toolsFrom(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}
