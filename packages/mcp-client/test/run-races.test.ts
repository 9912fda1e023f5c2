import { seededRandom, startLegacyServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { McpClient, McpClientError, runInSessionScope } from '../src/index.ts'
import { jitter } from './jitter.ts'

const seeds = Array.from({ length: 200 }, (_, n) => n + 1)

test('shares one session among concurrent callers and none between two runs: 200 times', async () => {
  await using server = await startLegacyServer()
  await using client = new McpClient({ url: server.url }, { era: 'legacy', scope: 'run' })
  for (const seed of seeds) {
    const random = seededRandom(seed)
    const before = server.count('initialize')
    const caller = async (): Promise<unknown> => {
      await jitter(random)
      const { structuredContent } = await client.callTool('counter_add')
      return structuredContent?.['count']
    }
    const agent = (): Promise<unknown[]> =>
      runInSessionScope(() => Promise.all([caller(), caller(), runInSessionScope(caller)]))
    for (const counts of await Promise.all([agent(), agent()])) {
      expect(new Set(counts)).toEqual(new Set([1, 2, 3]))
    }
    expect(server.count('initialize') - before).toBe(2)
    expect(server.sessions).toEqual([])
  }
})

test('answers or refuses calls while their run ends, and terminates its session: 200 times', async () => {
  await using server = await startLegacyServer()
  await using client = new McpClient({ url: server.url }, { era: 'legacy', scope: 'run' })
  for (const seed of seeds) {
    const random = seededRandom(seed)
    const calls: Promise<PromiseSettledResult<void>[]>[] = []
    await runInSessionScope(async () => {
      for (let n = 0; n < 4; n++) {
        const call = async (): Promise<void> => {
          await jitter(random, 8)
          await client.callTool('echo', { text: 'x' })
        }
        calls.push(Promise.allSettled([call()])) // nothing waits for it before the run is over
      }
      await jitter(random, 12)
    })
    for (const result of (await Promise.all(calls)).flat()) {
      if (result.status === 'fulfilled') continue
      const { reason } = result
      expect(McpClientError.is(reason) ? reason.code : reason).toMatch(/^(CLOSED|NO_RUN)$/)
    }
    // An aborted `initialize` may have opened a session that the client does not know. There are no others.
    const known = new Set(server.received.map(({ sessionId }) => sessionId))
    expect(server.sessions.filter((id) => known.has(id))).toEqual([])
    expect(server.openStreams).toBe(0)
  }
})

test('answers calls or rejects them with the reason while their run is aborted: 200 times', async () => {
  await using server = await startLegacyServer()
  await using client = new McpClient({ url: server.url }, { era: 'legacy', scope: 'run' })
  for (const seed of seeds) {
    const random = seededRandom(seed)
    const controller = new AbortController()
    const reason = new Error(`abort ${seed}`)
    const call = async (): Promise<unknown> => {
      await jitter(random, 8)
      return client.callTool('echo', { text: 'x' })
    }
    const abort = async (): Promise<void> => {
      await jitter(random, 12)
      controller.abort(reason)
    }
    const run = runInSessionScope(
      () => Promise.allSettled([call(), call(), call(), call(), abort()]),
      { signal: controller.signal },
    )
    const failures = (await run).flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
    const reasons = failures.map((error) => (McpClientError.is(error) ? error.cause : error))
    expect(reasons.filter((one) => one !== reason)).toEqual([])
    // An aborted `initialize` may have opened a session that the client does not know. There are no others.
    const known = new Set(server.received.map(({ sessionId }) => sessionId))
    expect(server.sessions.filter((id) => known.has(id))).toEqual([])
  }
})
