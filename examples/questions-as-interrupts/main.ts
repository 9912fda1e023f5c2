import { AIMessage } from '@langchain/core/messages'
import { fakeModel } from '@langchain/core/testing'
import { startAgent } from './agent.ts'
import { startHotel } from './hotel.ts'

await using hotel = await startHotel() // in your program: the URL of your server

// Books a room, and repeats the answer of the tool. Replace it by `new ChatAnthropic(…)`.
const model = fakeModel()
  .respondWithTools([{ name: 'book', args: { room: 7 } }])
  .respond((messages) => new AIMessage(messages.at(-1)?.text ?? ''))

const agent = await startAgent(hotel.url, model)
const answer = await agent.say('t1', 'Book room 7', async (questions) => {
  const entries = Object.entries(questions).map(([key, { params }]) => {
    console.log(`the hotel asks: ${params?.['message']}`)
    return [key, { action: 'accept' as const, content: { wanted: true } }] as const
  })
  return Object.fromEntries(entries) // in your program: what a person typed
})
console.log(`the agent says: ${answer}`)
await agent.close()
