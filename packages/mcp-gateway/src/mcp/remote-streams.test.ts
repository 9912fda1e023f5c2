import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { AgentsAtHand } from '../../test/agents-at-hand.ts'
import { settled } from '../../test/manual-clock.ts'
import { eventsOf, get, inSession, openSession, post, toolCall } from '../../test/rpc-requests.ts'
import { twoReplicas, withLogs } from '../../test/two-replicas.ts'

function slowly(finish: Promise<unknown>): AgentsAtHand {
  return new AgentsAtHand({
    async *slow() {
      yield { type: 'text', text: 'begun' }
      await finish
      yield { type: 'done', text: 'finished' }
    },
  })
}

/** Reads until its call has begun, and leaves. @returns the last event id */
async function begun(response: Response): Promise<string> {
  let last = ''
  for await (const { id, data } of eventsOf(response)) {
    last = id ?? last
    if (data.includes('Accepted')) break
  }
  return last
}

test('sends the answer at once to a client that comes back twice to another process', async () => {
  const finish = deferred()
  await using w = twoReplicas({ sources: [slowly(finish.promise)] }, (store) =>
    withLogs(store, {
      append: async (log, event, options) => {
        if (JSON.stringify(event).includes('"left"')) await settled()
        return store.logs.append(log, event, options)
      },
    }),
  )
  const id = await openSession(w.a)
  const last = await begun(await w.a(post(toolCall(1, 'slow', 'Go'), inSession(id))))
  const back = get(inSession(id, { 'last-event-id': last }))
  const first = (await w.b(back.clone())).text()
  const second = (await w.b(back)).text()
  expect(await first).not.toContain('finished')
  await settled()
  await settled()
  finish.resolve()
  expect(await second).toContain('finished') // the clock did not move
})

test('reads from the log what a lost signal would have announced, while the call goes on', async () => {
  const [further, finish] = [deferred(), deferred()]
  const agents = new AgentsAtHand({
    async *slow() {
      await further.promise
      yield { type: 'status', text: 'further' }
      await finish.promise
      yield { type: 'done', text: 'finished' }
    },
  })
  const isAway = { now: false }
  await using w = twoReplicas({ sources: [agents] }, (store) =>
    withLogs(store, {
      append: async (log, event, options) => {
        if (isAway.now && log === 'signals') return ''
        return store.logs.append(log, event, options)
      },
    }),
  )
  const id = await openSession(w.a)
  const last = await begun(await w.a(post(toolCall(1, 'slow', 'Go'), inSession(id))))
  const rest = eventsOf(await w.b(get(inSession(id, { 'last-event-id': last }))))
  isAway.now = true
  further.resolve()
  await settled()
  isAway.now = false
  await w.clock.advance(10_000)
  finish.resolve()
  expect((await rest.next()).value?.data).toContain('further')
  expect((await rest.next()).value?.data).toContain('finished')
})

test('keeps no reader of a client that comes back while the store fails', async () => {
  const finish = deferred()
  const isAway = { now: false }
  await using w = twoReplicas({ sources: [slowly(finish.promise)] }, (store) =>
    withLogs(store, {
      read: async (...place) => {
        if (isAway.now) throw new Error('connection refused')
        return store.logs.read(...place)
      },
    }),
  )
  const id = await openSession(w.a)
  const last = await begun(await w.a(post(toolCall(1, 'slow', 'Go'), inSession(id))))
  const back = get(inSession(id, { 'last-event-id': last }))
  isAway.now = true
  expect((await w.b(back.clone())).status).toBe(500)
  isAway.now = false
  const rest = (await w.b(back)).text()
  finish.resolve()
  expect(await rest).toContain('finished')
})
