// An agent in its own process, with a thread that outlives it. Sends its answer to its parent, and runs until the
// parent kills it or ends.
import { join } from 'node:path'
import { SqliteSaver, SqliteStore } from '@x/internal/testing/langgraph'
import { createMcpTools } from '@x/langchain-mcp'
import { createAgent } from 'langchain'
import { ScriptedChatModel } from '../story/agent/scripted-chat-model.ts'
import { lineFrom } from '../user-error.ts'

const { DATA_FOLDER = '', GATEWAY_TOKEN = '', GATEWAY_URL = '', QUESTION = '' } = process.env

const mcp = createMcpTools({
  servers: {
    reports: { url: GATEWAY_URL, headers: { authorization: `Bearer ${GATEWAY_TOKEN}` } },
  },
})
const agent = createAgent({
  model: new ScriptedChatModel(),
  tools: await mcp.listTools(),
  checkpointer: new SqliteSaver(join(DATA_FOLDER, 'agent.db')),
  store: new SqliteStore(join(DATA_FOLDER, 'agent-store.db')),
})

/** Starts the thread, or continues it if there is no question. */
async function answer(): Promise<string> {
  const input = QUESTION === '' ? null : { messages: [{ role: 'user', content: QUESTION }] }
  const config = { configurable: { thread_id: 'report' }, durability: 'sync' as const }
  const { messages } = await agent.invoke(input, config)
  return messages.at(-1)?.text ?? ''
}

process.once('disconnect', () => process.exit())
process.send?.(await answer().catch(lineFrom))
