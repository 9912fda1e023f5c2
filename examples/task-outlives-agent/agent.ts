import type { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { SqliteSaver } from '@langchain/langgraph-checkpoint-sqlite'
import { createMcpTools } from '@x/langchain-mcp'
import { createAgent } from 'langchain'

interface AgentOptions {
  readonly url: string
  readonly databasePath: string
  readonly model: BaseChatModel
}

/** Starts an agent that waits for tasks of a server, also for those of an earlier process. */
export async function startAgent({ url, databasePath, model }: AgentOptions) {
  const mcp = createMcpTools({ servers: { research: { url } } })
  const checkpointer = SqliteSaver.fromConnString(databasePath)
  const agent = createAgent({ model, tools: await mcp.listTools(), checkpointer })

  return {
    /** Starts a turn of the thread, or continues the one that another process has begun. */
    async run(thread: string, content?: string): Promise<string> {
      const input = content === undefined ? null : { messages: [{ role: 'user', content }] }
      const { messages } = await agent.invoke(input, {
        configurable: { thread_id: thread },
        durability: 'sync', // a task is in the database before the agent waits for it
      })
      return messages.at(-1)?.text ?? ''
    },
    close: () => mcp.close(),
  }
}
