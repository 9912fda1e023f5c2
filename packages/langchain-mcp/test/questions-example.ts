import { elicitationResume, isElicitationInterrupt, type ElicitationAnswer } from '../src/index.ts'
import { Command, isInterrupted, INTERRUPT, MemorySaver } from '@langchain/langgraph'
import type { StructuredTool } from '@langchain/core/tools'
import { createAgent, type fakeModel } from 'langchain'

export async function book(
  { model, tools }: { model: ReturnType<typeof fakeModel>; tools: StructuredTool[] },
  askPeople: (requests: unknown) => Promise<Record<string, ElicitationAnswer>>,
): Promise<unknown> {
  const agent = createAgent({ model, tools, checkpointer: new MemorySaver() })
  const config = { configurable: { thread_id: 't1' } }
  // #region readme
  let state = await agent.invoke({ messages: [{ role: 'user', content: 'Book a room' }] }, config)
  while (isInterrupted(state)) {
    let resume = {}
    for (const interrupt of state[INTERRUPT]) {
      if (!isElicitationInterrupt(interrupt.value)) continue
      const answers = await askPeople(interrupt.value.inputRequests) // hours later, if need be
      resume = { ...resume, ...elicitationResume(interrupt, answers) }
    }
    if (Object.keys(resume).length === 0) break // other interrupts wait, such as approvals
    state = await agent.invoke(new Command({ resume }), config) // the same calls go on
  }
  // #endregion
  return state.messages
}
