import { join } from 'node:path'
import type { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { SqliteSaver } from '@langchain/langgraph-checkpoint-sqlite'
import { createMcpTools, FileSessionInfoFactory } from '@x/langchain-mcp'
import { createAgent } from 'langchain'

interface AgentOptions {
  readonly url: string
  /** Keeps the messages and the sessions of all threads. */
  readonly folder: string
  readonly model: BaseChatModel
}

/** Starts an agent whose threads, and their MCP sessions, outlive the process. */
export async function startAgent({ url, folder, model }: AgentOptions) {
  const mcp = createMcpTools({
    servers: { shop: { url } },
    session: 'thread', // one session for each `thread_id`
    sessionInfoFactory: new FileSessionInfoFactory(join(folder, 'sessions')),
  })
  const checkpointer = SqliteSaver.fromConnString(join(folder, 'threads.db'))
  const agent = createAgent({ model, tools: await mcp.listTools(), checkpointer })

  return {
    async say(thread: string, content: string): Promise<string> {
      const config = { configurable: { thread_id: thread } }
      const { messages } = await agent.invoke({ messages: [{ role: 'user', content }] }, config)
      return `${messages.at(-1)?.text} (${messages.length} messages)`
    },
    close: () => mcp.close(),
  }
}
