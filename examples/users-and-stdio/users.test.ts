import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AIMessage } from '@langchain/core/messages'
import { fakeModel } from '@langchain/core/testing'
import { startAgent } from './agent.ts'
import { startShop } from './shop.ts'

const order = [{ name: 'order', args: { item: 'apples' } }]
const note = [{ name: 'note', args: { text: 'hello' } }]
const repeat = (messages: readonly { text: string }[]) => new AIMessage(messages.at(-1)?.text ?? '')
const ada = { name: 'ada', token: 'ada-1' }
const bob = { name: 'bob', token: 'bob-1' }

test('each user has credentials and a session, also when a token changes', async () => {
  await using shop = await startShop()
  const model = fakeModel()
  for (let turn = 0; turn < 3; turn++) model.respondWithTools(order).respond(repeat)
  const agent = await startAgent(shop.url, model)
  assert.equal(await agent.say(ada, 'Order'), 'apples for ada-1')
  assert.equal(await agent.say(bob, 'Order'), 'apples for bob-1')
  assert.equal(await agent.say({ ...ada, token: 'ada-2' }, 'Order'), 'apples for ada-2')
  await agent.close()
  assert.equal(shop.count('initialize'), 2)
})

test('all users share one process', async () => {
  await using shop = await startShop()
  const model = fakeModel()
  for (let turn = 0; turn < 2; turn++) model.respondWithTools(note).respond(repeat)
  const agent = await startAgent(shop.url, model)
  assert.equal(await agent.say(ada, 'Write'), 'notes: hello')
  assert.equal(await agent.say(bob, 'Write'), 'notes: hello, hello')
  await agent.close()
})
