import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { startLegacyServer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { McpClient, runInSessionScope } from '../src/index.ts'
import type { SessionScope } from '../src/index.ts'
import { eras, NOTHING, runLeakingProcess } from './run-leaking-process.ts'

setFlagsFromString('--expose-gc')
const gc: () => void = runInNewContext('gc')

async function inTens(count: number, use: (n: number) => Promise<unknown>): Promise<void> {
  for (let n = 0; n < count; n += 10) {
    await Promise.all(Array.from({ length: 10 }, (_, i) => use(n + i)))
  }
}

describe.each(Object.entries(eras))('%s', (_era, start) => {
  test('a thousand clients leave no object, handle or listener', async () => {
    await using server = await start()
    const { before, after } = await runLeakingProcess('clients', server)
    // A client that stayed would need more than ten times this.
    expect((after.heapBytes - before.heapBytes) / 1000).toBeLessThan(1000)
    expect(after).toMatchObject(NOTHING)
    expect(after.processListeners).toBe(before.processListeners)
    expect(server.remaining()).toEqual([])
  })
})

test('thirty servers on stdio leave no process, handle or listener', async () => {
  const { before, after } = await runLeakingProcess('programs')
  expect(after).toMatchObject(NOTHING)
  expect(after.processListeners).toBe(before.processListeners)
})

test('a thousand runs and a thousand scopes leave no object', async () => {
  await using server = await startLegacyServer({ listenStream: 'refuse-405' })
  let principal = ''
  const scope = (): SessionScope => ({ principal })
  const options = { era: 'legacy', scope, idleScopes: { max: 10 } } as const
  await using client = new McpClient({ url: server.url }, options)
  const clients: WeakRef<McpClient>[] = []
  await inTens(1000, async (n) => {
    await runInSessionScope(() => {
      const own = new McpClient({ url: server.url }, { era: 'legacy', scope: 'run' })
      clients.push(new WeakRef(own))
      return own.callTool('echo', { text: 'x' })
    })
    principal = `p${n}`
    await client.callTool('echo', { text: 'x' })
  })
  for (let turns = 5; turns > 0; turns--) {
    await setImmediate()
    gc()
  }
  // Objects of the last turns may still be on a stack.
  expect(clients.filter((one) => one.deref() !== undefined).length).toBeLessThan(50)
  expect(server.sessions.length).toBeLessThanOrEqual(20)
})
