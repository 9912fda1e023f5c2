import { AIMessage, HumanMessage, type BaseMessage } from '@langchain/core/messages'
import { check } from '@x/internal'
import type { Checks } from '@x/internal'
import { assertOptions } from '../option-check.ts'
import { requestChecks, sdkOptionsFrom } from '../resources/resource-source.ts'
import { contentBlockFrom } from '../calls/content-block.ts'
import type {
  McpPromptSource,
  PromptOptions,
  PromptResult,
  SdkPromptClient,
} from './prompt-source.ts'

/** Which prompt, with bounds. */
export interface McpPromptRequest extends PromptOptions {
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
 * A prompt of a server as LangChain messages: of a human where its role is `user`, else of the model. Text
 * is a string, and all other content a standard block, as in the results of tools. The client may be ours,
 * the `Client` of SDK v1 or v2, or `McpTools.server(name)`.
 *
 * @throws what the client throws: for a prompt that is not there, or arguments that are missing
 */
export async function loadMcpPrompt(
  client: McpPromptSource | SdkPromptClient,
  prompt: string | McpPromptRequest,
  args: Readonly<Record<string, string>> = {},
): Promise<BaseMessage[]> {
  const request = typeof prompt === 'string' ? { name: prompt } : prompt
  assertOptions('loadMcpPrompt()', { client, args, ...request }, promptChecks)
  const { name, ...options } = request
  const { messages }: PromptResult = isSdkClient(client)
    ? await client.getPrompt({ name, arguments: { ...args } }, sdkOptionsFrom(options))
    : await client.getPrompt(name, args, options)
  return messages.map(({ role, content }) => {
    const fields = { content: contentFrom(content) }
    return role === 'user' ? new HumanMessage(fields) : new AIMessage(fields)
  })
}

function isSdkClient(client: McpPromptSource | SdkPromptClient): client is SdkPromptClient {
  return 'connect' in client && 'getServerVersion' in client
}

function contentFrom(content: unknown): string | ReturnType<typeof contentBlockFrom>[] {
  const blocks = (Array.isArray(content) ? content : [content]).map(contentBlockFrom)
  const [only, ...others] = blocks
  const isText = only !== undefined && only.type === 'text' && typeof only.text === 'string'
  return isText && others.length === 0 ? String(only.text) : blocks
}
