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
  await using w = twoReplicas({ sources: [slowly(finish.promise)] })
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
