// An agent in its own process, with threads that outlive it. Answers the messages of its parent until it is killed.
import { flushCompileCache } from 'node:module'
import { join } from 'node:path'
import { SqliteSaver, SqliteStore } from '@x/internal/testing/langgraph'
import { createAgent } from 'langchain'
import { createMcpTools, SessionInfoLangGraphStoreFactory } from '../src/index.ts'
import { ScriptedModel } from './scripted-model.ts'

/** A message of the parent. */
export interface Said {
  readonly thread: string
  readonly content: string
}

const { SHOP_URL = '', DATA_FOLDER = '' } = process.env
const model = new ScriptedModel()
const checkpointer = new SqliteSaver(join(DATA_FOLDER, 'checkpoints.db'))
const store = new SqliteStore(join(DATA_FOLDER, 'store.db'))

// #region docs/guides/sessions.md
const mcp = createMcpTools({
  servers: { shop: { url: SHOP_URL } },
  session: 'thread', // kept in the graph's own store
  sessionInfoFactory: new SessionInfoLangGraphStoreFactory({ store }), // with the list of tools
})
const agent = createAgent({ model, tools: await mcp.listTools(), checkpointer, store })
// #endregion

process.on('message', ({ thread, content }: Said) => {
  agent
    .invoke({ messages: [{ role: 'user', content }] }, { configurable: { thread_id: thread } })
    .then(({ messages }) =>
      process.send?.({ answer: messages.at(-1)?.text, messages: messages.length }),
    )
    .catch((error: unknown) => process.send?.({ answer: String(error), messages: 0 }))
})
flushCompileCache() // a killed process loses its compiled code
process.send?.({ answer: 'ready', messages: 0 })
