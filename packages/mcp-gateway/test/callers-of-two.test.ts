import { startRedisServer } from '@x/internal/testing'
import { afterAll, expect, test } from 'vitest'

import { bearerAuth } from '../src/http/auth/bearer.ts'
import { createGateway, type Gateway } from '../src/gateway.ts'
import type { GatewayOptions } from '../src/options.ts'
import type { GatewayStore } from '../src/store/gateway-store.ts'
import { AgentsAtHand, echo } from './agents-at-hand.ts'
import { initialize } from './rpc-requests.ts'
import { redisStore } from './redis-store.ts'

const redis = await startRedisServer()
afterAll(async () => redis?.[Symbol.asyncDispose]())

const TOKEN = 'the-token-of-ada-0123456789'

interface Replica extends AsyncDisposable {
  readonly gateway: Gateway
  readonly store: GatewayStore
  readonly fetch: (request: Request) => Promise<Response>
}

/** Opens a gateway that shares only Redis with the others, as another process would. */
function replica(prefix: string, options: Partial<GatewayOptions> = {}): Replica {
  const store = redisStore({ url: redis?.url, prefix, timeoutMs: 10_000 })
  const gateway = createGateway({
    sources: [new AgentsAtHand({ echo })],
    auth: bearerAuth({ ada: { token: TOKEN, scopes: ['*'] } }),
    stateKey: 'the same in all processes, and long enough',
    http: { clientAddress: () => '192.0.2.1' },
    store,
    ...options,
  })
  return {
    gateway,
    store,
    fetch: (request) => gateway.fetch(request),
    async [Symbol.asyncDispose]() {
      await gateway.close()
      await store.close()
    },
  }
}

const authorization = `Bearer ${TOKEN}`

async function statusOf(answer: Promise<Response>): Promise<number> {
  const { status, body } = await answer
  await body?.cancel()
  return status
}

test.runIf(redis)('limits the requests of a caller over all processes together', async () => {
  const options = { requestsPerMinute: 4 }
  await using a = replica('rates-by-name', options)
  await using b = replica('rates-by-name', options)
  const statuses: number[] = []
  for (const { fetch } of [a, b, a, b, a, b]) {
    statuses.push(await statusOf(fetch(initialize({ authorization }))))
  }
  expect(statuses).toEqual([200, 200, 200, 200, 429, 429])
})
