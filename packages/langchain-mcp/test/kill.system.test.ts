import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { sourceNode, temporaryFolder } from '@x/internal/testing'
import { startRecordingProxy, startLegacyServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import type { Said } from './thread-agent.ts'

interface Answer {
  readonly answer: string
  /** Messages of the thread up to now. */
  readonly messages: number
}

interface AgentProcess extends AsyncDisposable {
  say(said: Said): Promise<Answer>
  /** Kills the process without handlers or notifications. */
  kill(): Promise<void>
}

async function startAgent(shop: string, folder: string): Promise<AgentProcess> {
  const child = fork(fileURLToPath(new URL('thread-agent.ts', import.meta.url)), {
    execPath: sourceNode,
    execArgv: ['--conditions=mcp-source'],
    env: { ...process.env, SHOP_URL: shop, DATA_FOLDER: folder },
  })
  const exited = once(child, 'exit')
  const next = async (): Promise<Answer> => {
    const [said] = await Promise.race([once(child, 'message'), exited])
    return said as Answer
  }
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL')
    await exited
  }
  expect(await next()).toMatchObject({ answer: 'ready' })
  return {
    say(said) {
      const answer = next()
      child.send(said)
      return answer
    },
    kill,
    [Symbol.asyncDispose]: kill,
  }
}

test('continues the session with one POST after the agent is killed between two messages', async () => {
  await using folder = await temporaryFolder()
  await using server = await startLegacyServer()
  await using proxy = await startRecordingProxy(server.url)

  await using first = await startAgent(proxy.url, folder.path)
  await expect.poll(() => server.sessions).toEqual([]) // a thread needs no session before its first call
  const opening = proxy.mark()
  expect(await first.say({ thread: 't1', content: 'call counter_add {"by":2}' })).toEqual({
    answer: 'counter is 2',
    messages: 4,
  })
  expect(opening.count({ rpcMethod: 'initialize' })).toBe(1)
  const [session] = opening.exchanges().flatMap((one) => one.assignedSessionId ?? [])
  await first.kill()

  const resumed = proxy.mark()
  await using second = await startAgent(proxy.url, folder.path)
  expect(resumed.exchanges()).toEqual([]) // the list of tools is that of the first process
  expect(await second.say({ thread: 't1', content: 'call counter_add {"by":3}' })).toEqual({
    answer: 'counter is 5', // the state of the server
    messages: 8, // the state of the graph
  })
  const posts = resumed.exchanges().filter(({ httpMethod }) => httpMethod === 'POST')
  expect(posts).toMatchObject([{ rpcMethod: 'tools/call', sessionId: session, status: 200 }])
  expect(resumed.count({ rpcMethod: 'initialize' })).toBe(0)

  const other = proxy.mark()
  expect(await second.say({ thread: 't2', content: 'call counter_add' })).toEqual({
    answer: 'counter is 1',
    messages: 4,
  })
  expect(other.count({ rpcMethod: 'initialize' })).toBe(1)
  expect(other.exchanges().some(({ sessionId }) => sessionId === session)).toBe(false)
  expect(server.sessions).toHaveLength(2)
})
