import type { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { Command, INTERRUPT, isInterrupted, MemorySaver } from '@langchain/langgraph'
import { createMcpTools, elicitationResume, isElicitationInterrupt } from '@x/langchain-mcp'
import type { ElicitationAnswer, McpElicitationInterrupt } from '@x/langchain-mcp'
import { createAgent } from 'langchain'

type Questions = McpElicitationInterrupt['inputRequests']
/** Returns an answer for the key of each question. */
export type AskPerson = (questions: Questions) => Promise<Record<string, ElicitationAnswer>>

/** Starts an agent. Its graph stops when a server has a question, and continues with the answer. */
export async function startAgent(url: string, model: BaseChatModel) {
  const mcp = createMcpTools({ servers: { hotel: { url } } })
  const checkpointer = new MemorySaver() // in production: one that outlives the process
  const agent = createAgent({ model, tools: await mcp.listTools(), checkpointer })

  return {
    async say(thread: string, content: string, askPerson: AskPerson): Promise<string> {
      const config = { configurable: { thread_id: thread } }
      let state = await agent.invoke({ messages: [{ role: 'user', content }] }, config)
      while (isInterrupted(state)) {
        let resume = {}
        for (const asked of state[INTERRUPT]) {
          if (!isElicitationInterrupt(asked.value)) throw new Error('Another kind of interrupt')
          const answers = await askPerson(asked.value.inputRequests) // hours later, if need be
          resume = { ...resume, ...elicitationResume(asked, answers) }
        }
        state = await agent.invoke(new Command({ resume }), config)
      }
      return state.messages.at(-1)?.text ?? ''
    },
    close: () => mcp.close(),
  }
}
