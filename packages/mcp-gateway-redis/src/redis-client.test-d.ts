import { createClient } from 'redis'
import { expectTypeOf, test } from 'vitest'
import type { RedisClient } from './redis-commands.ts'
import { redisStore } from './redis-store.ts'

test('the client of the redis package is one', () => {
  const client = createClient({ url: 'redis://127.0.0.1:6379' })
  expectTypeOf(client).toExtend<RedisClient>()
  void redisStore({ client })
})

test('anything else is not', () => {
  // @ts-expect-error -- it has no `sendCommand`
  void redisStore({ client: { get: async () => null } })
})
