import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createChat } from './chat.ts'
import { OrderModel } from './order-model.ts'
import { startShop } from './shop.ts'

type Chat = Awaited<ReturnType<typeof createChat>>['chat']

/** Sends a turn, as the page does, and returns the events of the answer. */
async function turn(chat: Chat, body: Readonly<Record<string, unknown>>) {
  const request = { method: 'POST', body: JSON.stringify({ thread: 't1', ...body }) }
  const response = await chat(new Request('http://localhost/chat', request))
  const events = (await response.text()).matchAll(/^event: (.*)\ndata: (.*)\n\n/gm)
  return Array.from(events, ([, event = '', data = '']) => ({ event, data: JSON.parse(data) }))
}

for (const { decision, events, executions } of [
  { decision: 'approve', events: ['progress', 'progress', 'text'], executions: 1 },
  { decision: 'reject', events: ['text'], executions: 0 },
]) {
  test(`${decision}: the tool runs ${executions} times`, async () => {
    await using shop = await startShop()
    const { chat, close } = await createChat(shop.url, new OrderModel())
    const [asked, ...more] = await turn(chat, { message: 'apples' })
    assert.equal(asked?.event, 'questions')
    assert.deepEqual(more, [])
    assert.equal(shop.executions('order'), 0)

    const decisions = [{ type: decision }]
    const answer = await turn(chat, { resume: { [asked.data[0].id]: { decisions } } })
    await close()
    assert.deepEqual(
      answer.map(({ event }) => event),
      events,
    )
    assert.equal(shop.executions('order'), executions)
  })
}
