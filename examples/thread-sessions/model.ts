import { randomUUID } from 'node:crypto'
import { AIMessage } from '@langchain/core/messages'
import { fakeModel } from '@langchain/core/testing'

/** A model that puts the item into the cart, and repeats the answer of the tool. Replace it by `new ChatAnthropic(…)`. */
export function modelThatAdds(item: string) {
  const call = { id: randomUUID(), name: 'cart_add', args: { item } }
  return fakeModel()
    .respond(new AIMessage({ content: '', tool_calls: [call] }))
    .respond((messages) => new AIMessage(messages.at(-1)?.text ?? ''))
}
