import type { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { createMcpTools } from '@x/langchain-mcp'
import { createAgent } from 'langchain'

export interface User {
  readonly name: string
  readonly token: string
}

/** Starts one agent for all users. */
export async function startAgent(shopUrl: string, model: BaseChatModel) {
  /** Each user has a session, a list of tools and credentials of their own. */
  const ofUser = createMcpTools({
    servers: {
      shop: {
        url: shopUrl,
        headers: ({ configurable }) => ({ authorization: `Bearer ${configurable['token']}` }),
      },
    },
    principal: ({ configurable }) => configurable?.['user'], // a stable name, never the token
  })
  /** One process, and no `principal`: all users share it. */
  const ofAll = createMcpTools({
    servers: { notes: { command: process.execPath, args: ['notes-server.ts'] } },
  })

  return {
    async say({ name, token }: User, content: string): Promise<string> {
      const config = { configurable: { user: name, token } }
      const tools = [...(await ofUser.listTools({ config })), ...(await ofAll.listTools())]
      const agent = createAgent({ model, tools })
      const { messages } = await agent.invoke({ messages: [{ role: 'user', content }] }, config)
      return messages.at(-1)?.text ?? ''
    },
    async close(): Promise<void> {
      await Promise.all([ofUser.close(), ofAll.close()])
    },
  }
}
