import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { McpClient } from '@x/mcp-client'

/** A program of somebody else that uses an agent as an MCP server, in whichever revision it speaks. */
export interface Caller extends AsyncDisposable {
  /** Names of the tools. */
  listTools(): Promise<readonly string[]>
  /** Calls a tool that takes a `message`, and returns the text of its answer. */
  call(tool: string, message: string, options: CallOptions): Promise<string>
}

interface CallOptions {
  readonly onProgress?: ((text: string) => void) | undefined
  /** Gives the call up. */
  readonly signal?: AbortSignal | undefined
}

/** Makes a caller; a token of `undefined` is none. */
export type ConnectCaller = (url: string, token: string | undefined) => Promise<Caller>

/** The client of SDK v1 as it comes from npm: revision 2025-11-25, with a session, which it ends. */
export async function callerWithSession(url: string, token: string | undefined): Promise<Caller> {
  const requestInit = { headers: headersWith(token) }
  const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit })
  const client = new Client({ name: 'somebody', version: '1.0.0' })
  await client.connect(transport)
  return {
    async listTools() {
      const { tools } = await client.listTools()
      return tools.map(({ name }) => name)
    },
    async call(name, message, { onProgress, signal }) {
      const { content } = await client.callTool({ name, arguments: { message } }, undefined, {
        onprogress: ({ message: text }) => onProgress?.(text ?? ''),
        ...(signal && { signal }),
      })
      return textOf(content)
    },
    async [Symbol.asyncDispose]() {
      await transport.terminateSession()
      await client.close()
    },
  }
}

/** A client of revision 2026-07-28, without a session. */
export async function callerWithoutSession(
  url: string,
  token: string | undefined,
): Promise<Caller> {
  const client = new McpClient({ url, headers: headersWith(token) })
  return {
    async listTools() {
      const tools = await client.listTools()
      return tools.map(({ name }) => name)
    },
    async call(name, message, { onProgress, signal }) {
      const { content } = await client.callTool(
        name,
        { message },
        { onProgress: ({ message: text }) => onProgress?.(text ?? ''), signal },
      )
      return textOf(content)
    },
    [Symbol.asyncDispose]: () => client.dispose(),
  }
}

function headersWith(token: string | undefined): Record<string, string> {
  return token === undefined ? {} : { authorization: `Bearer ${token}` }
}

function textOf(content: unknown): string {
  const blocks: readonly unknown[] = Array.isArray(content) ? content : []
  return blocks.flatMap((block) => (isText(block) ? block.text : [])).join('\n')
}

function isText(block: unknown): block is { readonly text: string } {
  return (
    typeof block === 'object' && block !== null && 'text' in block && typeof block.text === 'string'
  )
}
