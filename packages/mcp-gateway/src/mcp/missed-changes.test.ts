import { expect, test } from 'vitest'

import { eventsOf, modern } from '../../test/rpc-requests.ts'
import { twoReplicas, withLogs } from '../../test/two-replicas.ts'
import { bearerAuth } from '../http/auth/bearer.ts'

const TOKEN = 'the-token-of-ada-0123456789'
const authorization = `Bearer ${TOKEN}`

/** Two processes that lose changes of each other while the test says so. */
function world() {
  const gaps = new Set<() => void>()
  const replicas = twoReplicas(
    { auth: bearerAuth({ ada: { token: TOKEN, scopes: ['*'] } }) },
    (store) =>
      withLogs(store, {
        tail: (log, after, { onEvent, onGap }) => {
          gaps.add(onGap)
          return store.logs.tail(log, after, { onEvent, onGap })
        },
      }),
  )
  const lose = (): void => {
    for (const tell of gaps) tell()
  }
  return Object.assign(replicas, { lose })
}

/** Uploads a file of the caller. @returns its URI, without a version */
async function uploaded(fetch: (request: Request) => Promise<Response>): Promise<string> {
  const headers = { authorization, host: 'localhost' }
  const init = { method: 'PUT', body: 'Hello', headers }
  const answer = await fetch(new Request('http://localhost/artifacts/a.txt', init))
  const { uri } = (await answer.json()) as { uri: string }
  return uri.split('?')[0] ?? ''
}

test('notifies a listener of a file that may have changed while the store failed', async () => {
  await using w = world()
  const uri = await uploaded(w.a)
  const notifications = { resourcesListChanged: true, resourceSubscriptions: [uri] }
  const listen = modern('subscriptions/listen', { notifications }, { authorization })
  const events = eventsOf(await w.a(listen))
  const next = async (): Promise<string> => (await events.next()).value?.data ?? ''
  expect(await next()).toContain('acknowledged')
  w.lose()
  const told = [await next(), await next()].join('\n')
  expect(told).toContain('notifications/resources/list_changed')
  expect(told).toContain(`"notifications/resources/updated"`)
  expect(told).toContain(uri)
  await events.return(undefined)
})
