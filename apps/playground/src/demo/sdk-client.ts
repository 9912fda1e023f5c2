import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { CallToolOptions } from '@x/mcp-client'

/** Client of another program, which uses the agents as an MCP server. `McpClient` is one. */
export interface Caller extends AsyncDisposable {
  listTools(): Promise<readonly { readonly name: string }[]>
  callTool(
    name: string,
    args: Readonly<Record<string, unknown>>,
    options: Pick<CallToolOptions, 'onProgress'>,
  ): Promise<{ readonly content?: unknown }>
}

export interface GatewayAddress {
  readonly url: string
  readonly headers: Record<string, string>
}

/** Connects the client of SDK v1 as it comes from npm: revision 2025-11-25, with a session, which it ends. */
export async function connectSdkClient({ url, headers }: GatewayAddress): Promise<Caller> {
  const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } })
  const client = new Client({ name: 'sdk-v1', version: '1.0.0' })
  await client.connect(transport)
  return {
    listTools: async () => (await client.listTools()).tools,
    async callTool(name, args, { onProgress }) {
      const call = { name, arguments: { ...args } }
      const options = onProgress && { onprogress: onProgress }
      const { content } = await client.callTool(call, undefined, options)
      return { content }
    },
    async [Symbol.asyncDispose]() {
      await transport.terminateSession()
      await client.close()
    },
  }
}
