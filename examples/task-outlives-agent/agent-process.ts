// An agent in a process of its own.
import { AIMessage } from '@langchain/core/messages'
import { fakeModel } from '@langchain/core/testing'
import { startAgent } from './agent.ts'

const [url = '', databasePath = '', question] = process.argv.slice(2)

// Starts the long tool, and repeats its answer. Replace it by `new ChatAnthropic(…)`.
const model = fakeModel()
if (question !== undefined) model.respondWithTools([{ name: 'slow_compute', args: {} }])
model.respond((messages) => new AIMessage(messages.at(-1)?.text ?? ''))

const agent = await startAgent({ url, databasePath, model })
process.send?.(await agent.run('t1', question))
await agent.close()
process.disconnect?.()
