import { Command, INTERRUPT, isInterrupted, MemorySaver } from '@langchain/langgraph'
import { createMcpTools, elicitationResume, isElicitationInterrupt } from '@x/langchain-mcp'
import { createAgent } from 'langchain'

const model = 'anthropic:claude-sonnet-4-5'
const mcp = createMcpTools({ servers: { hotel: { url: 'https://hotel.example/mcp' } } })
const agent = createAgent({ model, tools: await mcp.listTools(), checkpointer: new MemorySaver() })
const config = { configurable: { thread_id: 't1' } }

/** Shows the questions to a person, and returns an answer for each key; this one declines them all. */
async function askPeople(requests: Readonly<Record<string, unknown>>) {
  const declined = { action: 'decline' } as const
  return Object.fromEntries(Object.keys(requests).map((key) => [key, declined]))
}

let state = await agent.invoke({ messages: [{ role: 'user', content: 'Book a room' }] }, config)
while (isInterrupted(state)) {
  let resume = {}
  for (const asked of state[INTERRUPT]) {
    if (!isElicitationInterrupt(asked.value)) continue
    const answers = await askPeople(asked.value.inputRequests) // hours later, if need be
    resume = { ...resume, ...elicitationResume(asked, answers) }
  }
  if (Object.keys(resume).length === 0) break // other interrupts wait, such as approvals
  state = await agent.invoke(new Command({ resume }), config) // the same calls go on
}
export {}
