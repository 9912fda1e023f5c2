import { startRedisServer } from '@x/internal/testing'
import { deferred } from '@x/mcp-testing'
import { afterAll, expect, test } from 'vitest'

import { bearerAuth } from '../src/http/auth/bearer.ts'
import { Runtime } from '../src/gateway/runtime.ts'
import type { AgentUpdate } from '../src/agents/agent.ts'
import { AgentsAtHand } from './agents-at-hand.ts'
import { connectForFiles, FILE_CLIENTS } from './file-clients.ts'
import { redisStore } from './redis-store.ts'

const redis = await startRedisServer()
afterAll(async () => redis?.[Symbol.asyncDispose]())

const TOKEN = 'ada-has-a-token-of-her-own'

async function replica(url: string, prefix: string) {
  const store = redisStore({ url, prefix })
  let version = 0
  const write = function* writeNext(): Iterable<AgentUpdate> {
    yield { type: 'file', file: { name: 'plan.txt', data: Buffer.from(`text ${++version}`) } }
    yield { type: 'done' }
  }
  const gateway = new Runtime(
    {
      sources: [new AgentsAtHand({ write })],
      auth: bearerAuth({ ada: { token: TOKEN, scopes: ['*'] } }),
      stateKey: 'the same thirty-two bytes, or more',
      store,
    },
    { readMaxBytes: 3 },
  )
  const listener = await gateway.listen({ port: 0 })
  return {
    url: listener.url,
    async [Symbol.asyncDispose]() {
      await gateway.close()
      await store.close()
    },
  }
}

test.runIf(redis).each(FILE_CLIENTS)(
  'reads, follows and downloads a file of one process at another (%s)',
  async (kind) => {
    const prefix = `files-${kind.replace(' ', '-')}:`
    await using a = await replica(redis?.url ?? '', prefix)
    await using b = await replica(redis?.url ?? '', prefix)
    const updated = deferred<string>()
    await using atA = await connectForFiles(kind, a.url, { token: TOKEN })
    await using atB = await connectForFiles(kind, b.url, {
      token: TOKEN,
      onUpdated: updated.resolve,
    })
    await atA.call('write', { message: 'Go' })
    const [listed] = await atB.resources()
    expect(listed).toMatchObject({ name: 'plan.txt', size: 6 })
    const uri = listed?.uri ?? ''
    await atB.follow(uri)
    await atA.call('write', { message: 'Again' })
    await expect(updated.promise).resolves.toBe(uri)

    const refusal: unknown = await atA.read(uri).catch((error: unknown) => error)
    const { data } = refusal as { data: { downloadUrl: string } }
    const elsewhere = data.downloadUrl.replace(new URL(a.url).host, new URL(b.url).host)
    expect(await (await fetch(elsewhere)).text()).toBe('text 2')
  },
)
