import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { McpClient } from '@x/mcp-client'

type Headers = Readonly<Record<string, string>>

type OnProgress = (progress: { readonly message?: string | undefined }) => void

/** Another program that uses the agents as an MCP server. */
export interface Caller extends AsyncDisposable {
  readonly name: string
  listTools(): Promise<readonly { readonly name: string }[]>
  /** Calls a tool that takes a `message`, and returns the content of its answer. */
  call(tool: string, message: string, onProgress: OnProgress): Promise<unknown>
}

/** The client of SDK v1 as it comes from npm: revision 2025-11-25, with a session, which it ends. */
export async function connectSdkClient(url: string, headers: Headers): Promise<Caller> {
  const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } })
  const client = new Client({ name: 'sdk-v1', version: '1.0.0' })
  await client.connect(transport)
  return {
    name: 'sdk-v1',
    listTools: async () => (await client.listTools()).tools,
    async call(name, message, onprogress) {
      const call = { name, arguments: { message } }
      return (await client.callTool(call, undefined, { onprogress })).content
    },
    async [Symbol.asyncDispose]() {
      await transport.terminateSession()
      await client.close()
    },
  }
}

/** An `McpClient`, which speaks revision 2026-07-28 with the gateway, without a session. */
export async function connectMcpClient(url: string, headers: Headers): Promise<Caller> {
  const client = new McpClient({ url, headers })
  return {
    name: 'mcp-client',
    listTools: () => client.listTools(),
    async call(name, message, onProgress) {
      return (await client.callTool(name, { message }, { onProgress })).content
    },
    [Symbol.asyncDispose]: () => client.dispose(),
  }
}
