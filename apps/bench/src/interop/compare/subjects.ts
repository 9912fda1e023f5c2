import { MultiServerMCPClient } from '@langchain/mcp-adapters'
import { createMcpTools } from '@x/langchain-mcp'
import { onOurTransport, onStockTransport } from '../sdk-clients.ts'
import type { SdkClient } from '../sdk-clients.ts'
import { callsOf } from '../tools.ts'

/** Somebody who calls tools, as its users would set it up. */
export interface Subject {
  readonly name: string
  readonly connect: (url: string) => Promise<Connected>
}

export interface Connected {
  /** Resolves to the answer as JSON; rejects, or says so in the answer, if the call failed. */
  readonly call: (tool: string) => Promise<string>
  readonly close: () => Promise<void>
}

export const SUBJECTS: readonly Subject[] = [
  { name: 'SDK v1', connect: async (url) => sdk(await onStockTransport('v1', url)) },
  { name: 'SDK v2', connect: async (url) => sdk(await onStockTransport('v2', url)) },
  { name: '@langchain/mcp-adapters', connect: adapters },
  {
    name: 'SDK v1, our transport',
    connect: async (url) => sdk(await onOurTransport('v1', url, { onSessionLost: 'reinitialize' })),
  },
  { name: '@x/langchain-mcp', connect: ours },
]

function sdk(client: SdkClient): Connected {
  return {
    call: async (tool) => JSON.stringify(await client.callTool({ name: tool, arguments: {} })),
    close: () => client.close(),
  }
}

async function adapters(url: string): Promise<Connected> {
  const client = new MultiServerMCPClient({ mcpServers: { shop: { transport: 'http', url } } })
  const { call } = callsOf(await client.getTools())
  return { call: (tool) => call(tool), close: () => client.close() }
}

async function ours(url: string): Promise<Connected> {
  const mcp = createMcpTools({ servers: { shop: { url } }, log: () => {}, onToolError: 'throw' })
  const { call } = callsOf(await mcp.listTools())
  return { call: (tool) => call(tool), close: () => mcp.close() }
}
