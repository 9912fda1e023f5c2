// Everything exported here is public API.
import './runtime-check.ts' // stays the first import
import { AIMessage, HumanMessage, type BaseMessage } from '@langchain/core/messages'
import { check, type Checks } from '@x/internal'
import {
  requestChecks,
  type McpPromptSource,
  type PromptResult,
  type RequestOptions,
} from './tool-source.ts'
import { assertOptions } from './options.ts'
import { isSdkClient, sdkOptionsFrom, type SdkPromptClient } from './sdk-client.ts'
import { contentBlockFrom } from './tools/tool-output.ts'

/** The name of a prompt, with request options. */
interface McpPromptRequest extends RequestOptions {
  readonly name: string
}

const promptChecks: Checks<McpPromptRequest & { client: unknown; args: unknown }> = {
  ...requestChecks,
  name: check.required(check.text),
  client: check.required({
    ...check.methods('getPrompt'),
    takes: 'a connected client, an McpClient or what server(name) returns',
  }),
  args: check.mapOf(check.string),
}

/**
 * Loads a prompt of a server as LangChain messages: human messages for the role `user`, else AI messages. A
 * single text becomes a string. Other content becomes standard content blocks, as in tool results. The client
 * may be an `McpClient`, the `Client` of SDK v1 or v2, or `McpTools.server(name)`.
 *
 * @throws the client's error, for an unknown prompt or missing arguments
 * @example
 * ```ts
 * import { loadMcpPrompt } from '@x/langchain-mcp/prompts'
 * import { McpClient } from '@x/mcp-client'
 *
 * await using client = new McpClient('https://shop.example/mcp')
 * const messages = await loadMcpPrompt(client, 'greeting', { name: 'Ada' })
 * ```
 */
export async function loadMcpPrompt(
  client: McpPromptSource | SdkPromptClient,
  prompt: string | McpPromptRequest,
  args: Readonly<Record<string, string>> = {},
): Promise<BaseMessage[]> {
  const request = typeof prompt === 'string' ? { name: prompt } : prompt
  assertOptions('loadMcpPrompt()', { client, args, ...request }, promptChecks)
  const { name, ...options } = request
  const { messages }: PromptResult = isSdkClient<SdkPromptClient>(client)
    ? await client.getPrompt({ name, arguments: { ...args } }, sdkOptionsFrom(options))
    : await client.getPrompt(name, args, options)
  return messages.map(({ role, content }) => {
    const fields = { content: toMessageContent(content) }
    return role === 'user' ? new HumanMessage(fields) : new AIMessage(fields)
  })
}

function toMessageContent(content: unknown): string | ReturnType<typeof contentBlockFrom>[] {
  const blocks = (Array.isArray(content) ? content : [content]).map(contentBlockFrom)
  const [only, ...others] = blocks
  const isText = only !== undefined && only.type === 'text' && typeof only.text === 'string'
  return isText && others.length === 0 ? String(only.text) : blocks
}
