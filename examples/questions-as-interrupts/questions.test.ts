import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AIMessage } from '@langchain/core/messages'
import { fakeModel } from '@langchain/core/testing'
import { startAgent } from './agent.ts'
import { startHotel } from './hotel.ts'

function bookingModel() {
  return fakeModel()
    .respondWithTools([{ name: 'book', args: { room: 7 } }])
    .respond((messages) => new AIMessage(messages.at(-1)?.text ?? ''))
}

test('the call continues with the answer, and is executed once', async () => {
  await using hotel = await startHotel()
  const agent = await startAgent(hotel.url, bookingModel())
  const asked: unknown[] = []
  const answer = await agent.say('t1', 'Book room 7', async (questions) => {
    asked.push(questions['breakfast']?.params?.['message'])
    return { breakfast: { action: 'accept', content: { wanted: true } } }
  })
  await agent.close()
  assert.deepEqual(asked, ['Breakfast in room 7?'])
  assert.match(answer, /"wanted":true/)
  assert.equal(hotel.executions('book'), 1)
})

test('an answer that does not fit the question is asked for again', async () => {
  await using hotel = await startHotel()
  const agent = await startAgent(hotel.url, bookingModel())
  const answers = [{ wanted: 'perhaps' }, { wanted: false }]
  const answer = await agent.say('t1', 'Book room 7', async () => ({
    breakfast: { action: 'accept', content: answers.shift() ?? {} },
  }))
  await agent.close()
  assert.equal(answers.length, 0)
  assert.match(answer, /"wanted":false/)
})
