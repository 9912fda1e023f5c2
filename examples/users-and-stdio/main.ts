import { AIMessage } from '@langchain/core/messages'
import { fakeModel } from '@langchain/core/testing'
import { startAgent } from './agent.ts'
import { startShop } from './shop.ts'

await using shop = await startShop() // in your program: the URL of your server

// Calls both tools, and repeats their answers. Replace it by `new ChatAnthropic(…)`.
const model = fakeModel()
for (const item of ['apples', 'pears']) {
  model
    .respondWithTools([
      { name: 'order', args: { item } },
      { name: 'note', args: { text: item } },
    ])
    .respond(
      (messages) =>
        new AIMessage(
          messages
            .slice(-2)
            .map(({ text }) => text)
            .join('; '),
        ),
    )
}

const agent = await startAgent(shop.url, model)
for (const name of ['ada', 'bob']) {
  const user = { name, token: `${name}-token` }
  console.log(`${name}: ${await agent.say(user, 'Order, and write it down')}`)
}
await agent.close()
