import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { connect } from '../../test/mcp-clients.ts'
import { inSession, openSession, post, toolCall } from '../../test/rpc-requests.ts'
import { twoReplicas, withLogs } from '../../test/two-replicas.ts'

const cancel = (requestId: number): object => ({
  jsonrpc: '2.0',
  method: 'notifications/cancelled',
  params: { requestId, reason: 'Enough' },
})

test('aborts a call that is cancelled before it begins', async () => {
  const [kept, isKeeping] = [deferred(), deferred()]
  let isOpen = false
  await using w = twoReplicas({}, (store) =>
    withLogs(store, {
      append: async (log, event, options) => {
        if (isOpen) {
          isKeeping.resolve()
          await kept.promise
        }
        return store.logs.append(log, event, options)
      },
    }),
  )
  const headers = inSession(await openSession(w.a))
  isOpen = true
  const answering = w.a(post(toolCall(1, 'endless', 'Go'), headers)) // its first event is stored first
  await isKeeping.promise
  await w.a(post(cancel(1), headers))
  kept.resolve()
  expect(await (await answering).text()).not.toContain('"id":1')
  expect(w.agents.calls.filter(({ signal }) => !signal.aborted)).toHaveLength(0)
})

test.each(['v1', 'v2 legacy'] as const)(
  'lets a client go on after it cancelled a call: SDK %s',
  async (kind) => {
    await using w = twoReplicas({}, undefined, { retryMs: 1 })
    const { url } = await w.assemblies[0].listen({ port: 0 })
    const resumed: number[] = []
    const resumption = deferred()
    await using client = await connect(kind, url, {
      fetch: async (target, init) => {
        const response = await fetch(target, init)
        if (new Headers(init?.headers).has('last-event-id')) {
          resumed.push(response.status)
          resumption.resolve()
        }
        return response
      },
    })
    const leaving = new AbortController()
    const calling = client.callTool('endless', 'Go', {
      signal: leaving.signal,
      onProgress: () => leaving.abort(),
    })
    await expect(calling).rejects.toThrow(/abort/i)
    await resumption.promise // the client takes the end for a lost connection, once
    await client.ping()
    await expect(client.callTool('echo', 'Hi')).resolves.toMatchObject({
      content: [{ text: 'Hi' }],
    })
    expect(resumed).toEqual([405])
    expect(w.agents.calls[0]?.signal.aborted).toBe(true)
    expect(w.warnings).toEqual([])
  },
)
