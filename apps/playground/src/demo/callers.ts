import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { isRecord } from '@x/internal'
import { McpClient } from '@x/mcp-client'

/** Another program that uses the agents as an MCP server. */
export interface Caller extends AsyncDisposable {
  readonly name: string
  listTools(): Promise<readonly string[]>
  /** Calls a tool that takes a `message`, and returns the text of its answer. */
  call(tool: string, message: string, onProgress: (text: string) => void): Promise<string>
}

/** Connects a caller; without a token it sends none. */
export type ConnectCaller = (url: string, token: string | undefined) => Promise<Caller>

/** The client of SDK v1 as it comes from npm: revision 2025-11-25, with a session, which it ends. */
export async function connectSdkClient(url: string, token: string | undefined): Promise<Caller> {
  const requestInit = { headers: headersWith(token) }
  const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit })
  const client = new Client({ name: 'sdk-v1', version: '1.0.0' })
  await client.connect(transport)
  return {
    name: 'sdk-v1',
    listTools: async () => (await client.listTools()).tools.map(({ name }) => name),
    async call(name, message, onProgress) {
      const { content } = await client.callTool({ name, arguments: { message } }, undefined, {
        onprogress: ({ message: text }) => onProgress(text ?? ''),
      })
      return textOf(content)
    },
    async [Symbol.asyncDispose]() {
      await transport.terminateSession()
      await client.close()
    },
  }
}

/** An `McpClient`, which speaks revision 2026-07-28 with the gateway, without a session. */
export async function connectMcpClient(url: string, token: string | undefined): Promise<Caller> {
  const client = new McpClient({ url, headers: headersWith(token) })
  return {
    name: 'mcp-client',
    listTools: async () => (await client.listTools()).map(({ name }) => name),
    async call(name, message, onProgress) {
      const options = { onProgress: ({ message: text = '' }) => onProgress(text) }
      return textOf((await client.callTool(name, { message }, options)).content)
    },
    [Symbol.asyncDispose]: () => client.dispose(),
  }
}

function headersWith(token: string | undefined): Record<string, string> {
  return token === undefined ? {} : { authorization: `Bearer ${token}` }
}

function textOf(content: unknown): string {
  const blocks: readonly unknown[] = Array.isArray(content) ? content : []
  const texts = blocks.map((block) => (isRecord(block) ? block['text'] : undefined))
  return texts.filter((text) => typeof text === 'string').join('\n')
}
