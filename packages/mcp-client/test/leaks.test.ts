import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { fileURLToPath } from 'node:url'
import { runInNewContext } from 'node:vm'
import { sourceNode, startModernServer, startStatefulServer } from '@x/test-kit'
import { describe, expect, test } from 'vitest'
import { McpClient, runInSessionScope, SessionPool } from '../src/index.ts'
import type { SessionScope } from '../src/index.ts'
import type { Remains } from './leaking-process.ts'

setFlagsFromString('--expose-gc')
const gc: () => void = runInNewContext('gc')

/** Bytes in use when everything that can be collected is. */
async function heapBytes(): Promise<number> {
  for (let turns = 5; turns > 0; turns--) {
    await setImmediate()
    gc()
  }
  return process.memoryUsage().heapUsed
}

/** Those of the last turns may still be on somebody's stack. */
function alive(things: readonly WeakRef<object>[]): number {
  return things.filter((thing) => thing.deref() !== undefined).length
}

async function inTens(count: number, use: (n: number) => Promise<unknown>): Promise<void> {
  for (let n = 0; n < count; n += 10) {
    await Promise.all(Array.from({ length: 10 }, (_, i) => use(n + i)))
  }
}

/** Runs `leaking-process.ts`; resolves when it has ended by itself, which it does when nothing is left. */
async function remainsOf(
  use: string,
  server?: { readonly url: string; lose(): unknown; crash(): unknown },
): Promise<{ readonly before: Remains; readonly after: Remains }> {
  const script = fileURLToPath(new URL('leaking-process.ts', import.meta.url))
  const args = ['--expose-gc', '--conditions=mcp-source', script, use, server?.url ?? '']
  const child = spawn(sourceNode, args, { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] })
  child.on('message', (what) => (what === 'lose' ? server?.lose() : server?.crash()))
  const said: unknown[] = []
  child.stdout?.on('data', (chunk) => said.push(chunk))
  expect(await once(child, 'close')).toEqual([0, null])
  return JSON.parse(said.join('')) as { before: Remains; after: Remains }
}

const NOTHING: Partial<Remains> = { handles: [], abortListeners: 0, dispatcherListeners: 0 }

const eras = {
  'with sessions': async () => {
    const server = await startStatefulServer({ answerAs: 'sse' })
    return { server, lose: () => server.forgetSessions(), crash: () => server.restart() }
  },
  'without sessions': async () => {
    const server = await startModernServer()
    return { server, lose: () => server.dropListeners(), crash: () => server.restart() }
  },
}

describe.each(Object.entries(eras))('%s', (_era, start) => {
  test('ten thousand calls, however they end, leave nothing', async () => {
    const { server, ...trouble } = await start()
    await using _ = server
    const { before, after } = await remainsOf('calls', { url: server.url, ...trouble })
    expect(server.count('tools/call')).toBeGreaterThan(5000) // the rest never was to be sent
    expect((after.heapBytes - before.heapBytes) / 10_000).toBeLessThan(50)
    expect(after).toMatchObject(NOTHING)
    expect(after.processListeners).toBe(before.processListeners)
  }, 120_000)

  test('a thousand clients leave nothing', async () => {
    const { server, ...trouble } = await start()
    await using _ = server
    const { before, after } = await remainsOf('clients', { url: server.url, ...trouble })
    // One that stayed would weigh more than ten times of this.
    expect((after.heapBytes - before.heapBytes) / 1000).toBeLessThan(1000)
    expect(after).toMatchObject(NOTHING)
    expect(after.processListeners).toBe(before.processListeners)
    expect('sessions' in server ? server.sessions : server.listeners).toEqual([])
  }, 120_000)
})

test('thirty servers on stdio leave no process, no handle and no listener', async () => {
  const { before, after } = await remainsOf('programs')
  expect(after).toMatchObject(NOTHING)
  expect(after.processListeners).toBe(before.processListeners)
}, 120_000)

test('a thousand runs, and a thousand scopes, leave none of them', async () => {
  await using server = await startStatefulServer({ listenStream: 'refuse-405' })
  await using pool = new SessionPool({ era: 'legacy' })
  let principal = ''
  const scope = (): SessionScope => ({ principal })
  const options = { era: 'legacy', scope, idleScopes: { max: 10 } } as const
  await using client = new McpClient({ url: server.url }, options)
  const clients: WeakRef<McpClient>[] = []
  await inTens(1000, async (n) => {
    await runInSessionScope(() => {
      const pooled = pool.acquire({ url: server.url, headers: { 'x-n': String(n) } })
      clients.push(new WeakRef(pooled))
      return pooled.callTool('echo', { text: 'x' })
    })
    principal = `p${n}`
    await client.callTool('echo', { text: 'x' })
  })
  await heapBytes()
  expect(alive(clients)).toBeLessThan(50)
  expect(server.sessions.length).toBeLessThanOrEqual(20)
}, 60_000)
