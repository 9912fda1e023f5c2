import { expect, test } from 'vitest'

import { systemClock } from '../src/internal/clock.ts'
import { createGateway } from '../src/gateway.ts'
import { AgentsAtHand, echo } from './agents-at-hand.ts'
import { WireSession } from './wire-session.ts'

test('serves during the drain delay, while /readyz refuses, and then closes the port', async () => {
  const drainDelayMs = 12_345
  let endDelay: (() => void) | undefined
  const clock = {
    now: () => systemClock.now(),
    after: (ms: number, task: () => void) => {
      if (ms !== drainDelayMs) return systemClock.after(ms, task)
      endDelay = task
      return () => undefined
    },
  }
  const sources = [new AgentsAtHand({ echo })]
  const gateway = createGateway({ sources, clock, http: { drainDelayMs } })
  const { url } = await gateway.listen({ port: 0 })
  await gateway.registry.start()
  const ready = new URL('/readyz', url)
  expect((await fetch(ready)).status).toBe(200)
  const closed = gateway.close()

  const answer = await fetch(ready)
  expect(answer.status).toBe(503)
  expect(await answer.json()).toMatchObject({ reasons: ['draining'] })
  const session = await WireSession.open(url)
  const params = { name: 'echo', arguments: { message: 'Hi' } }
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params }
  expect(await session.ask(url, call)).toMatchObject({ status: 200, message: { result: {} } })

  endDelay?.()
  await closed
  await expect(fetch(ready)).rejects.toThrow('fetch failed')
})
