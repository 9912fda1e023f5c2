// Compares what a client reports about its calls with what a failing server has received.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { seededRandom, startRecordingProxy } from '@x/mcp-testing'
import { createDispatcher } from '@x/mcp-transport'
import { expect, test } from 'vitest'
import { McpClient, McpClientError } from '../src/index.ts'

const CALLS = 400
const USERS = 8

test.each([
  ['directly', 1],
  ['through a proxy', 2],
  ['with two connections and short time limits', 3],
] as const)(
  'never reports a call that reached the server as not executed: %s',
  async (way, seed) => {
    const random = seededRandom(seed)
    const child = fork(fileURLToPath(new URL('./breaking-server.mjs', import.meta.url)), {
      execArgv: [],
    })
    const [{ port }] = await once(child, 'message')
    const direct = `http://127.0.0.1:${port}/mcp`
    await using proxy = await startRecordingProxy(direct)
    const url = way === 'through a proxy' ? proxy.url : direct
    const dispatcher = createDispatcher(seed === 3 ? { connections: 2 } : {})
    await using client = new McpClient({ url }, { era: 'legacy', maxRetries: 0, dispatcher })
    await client.ping()

    const outcomes = new Map<number, string>()
    const calls = { last: 0 }
    const useIt = async (): Promise<void> => {
      while (calls.last < CALLS) {
        const n = ++calls.last
        const padding = random() < 0.02 ? 'x'.repeat(4_000_000) : ''
        const timeoutMs = seed === 3 ? 1 + random() * 20 : undefined
        const args = { n, ms: Math.floor(random() * 6), padding }
        outcomes.set(n, await outcomeOf(client, args, timeoutMs))
        if (random() < 0.5) await sleep(random() * 8)
      }
    }
    const users = Promise.all(Array.from({ length: USERS }, useIt))
    while (calls.last < CALLS) {
      await sleep(random() * 60)
      const crash = { what: 'crash', downMs: random() * 20 }
      child.send(random() < 0.5 ? crash : { what: 'close', share: random() })
    }
    await users
    child.send({ what: 'received' })
    const [{ received }] = await once(child, 'message')
    child.kill()
    await dispatcher.destroy()

    const all = [...outcomes]
    expect(outcomes.size).toBe(CALLS)
    expect(new Set(received).size).toBe(received.length) // nothing was sent twice
    const notExecuted = all.flatMap(([n, outcome]) => (outcome === 'not-executed' ? [n] : []))
    expect(notExecuted.filter((n) => received.includes(n))).toEqual([])
    expect(notExecuted.length).toBeGreaterThan(0)
  },
)

async function outcomeOf(
  client: McpClient,
  args: Record<string, unknown>,
  timeoutMs: number | undefined,
): Promise<string> {
  try {
    await client.callTool('work', args, { timeoutMs })
    return 'executed'
  } catch (error) {
    return McpClientError.is(error) ? (error.outcome ?? 'none') : 'none'
  }
}
