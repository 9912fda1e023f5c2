import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { sourceNode } from '@x/internal/testing'
import { deferred, startRecordingProxy, startLegacyServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { MemoryDebugStateStore, createDebugStateServer } from '../src/server/index.ts'

interface AgentProcess extends AsyncDisposable {
  /** Calls a tool, and returns the session id. */
  call(): Promise<string>
  /** Ends the process. */
  end(): Promise<unknown>
}

function startAgent(baseUrl: string, url: string): AgentProcess {
  const script = fileURLToPath(new URL('agent-process.ts', import.meta.url))
  const args = ['--conditions=mcp-source', '--no-warnings', script, baseUrl, url]
  const child = spawn(sourceNode, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const exit = once(child, 'exit')
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    async call() {
      child.stdin.write('call\n')
      const line = await lines.next()
      if (line.done === true) throw new Error('The agent has ended')
      return line.value
    },
    async end() {
      child.stdin.end()
      const [code] = await exit
      return code
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await exit
    },
  }
}

test('lets two processes that open a session at the same time share one in the end', async () => {
  await using mcp = await startLegacyServer()
  await using proxy = await startRecordingProxy(mcp.url)
  await using service = createDebugStateServer({ store: new MemoryDebugStateStore() })
  const baseUrl = await service.listen()
  const both = deferred()
  let opening = 0
  proxy.inject({
    match: ({ rpcMethod }) => rpcMethod === 'initialize',
    async action() {
      if (++opening === 2) both.resolve()
      await both.promise
      return 'forward'
    },
  })
  await using one = startAgent(baseUrl, proxy.url)
  await using other = startAgent(baseUrl, proxy.url)
  await Promise.all([one.call(), other.call()])
  await proxy.waitFor(({ httpMethod, end }) => httpMethod === 'DELETE' && end === 'complete')
  const ids = await Promise.all([one.call(), other.call()])
  expect(new Set(ids).size).toBe(1)
  expect(mcp.sessions).toEqual([ids[0]])
  expect(await Promise.all([one.end(), other.end()])).toEqual([0, 0])
  expect(mcp.sessions).toEqual([ids[0]])
  expect(mcp.executions('counter_add')).toBe(4)
  // The next process continues the session with one POST.
  const mark = proxy.mark()
  await using next = startAgent(baseUrl, proxy.url)
  expect(await next.call()).toBe(ids[0])
  expect(mark.exchanges().filter(({ httpMethod }) => httpMethod === 'POST')).toHaveLength(1)
  expect(await next.end()).toBe(0)
})
