import { AsyncLocalStorage } from 'node:async_hooks'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { deferred, startLegacyServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { StreamableHttpTransport } from '../src/index.ts'

test('what a server says on the answer of a call comes in the async context of that call', async () => {
  await using server = await startLegacyServer({ answerAs: 'sse', listenStream: 'refuse-405' })
  const transport = new StreamableHttpTransport(server.url, { era: 'legacy' })
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(transport)
  const caller = new AsyncLocalStorage<string>()
  for (const names of [
    ['a', 'b', 'c'],
    ['d', 'e', 'f'], // on the connections of those before
  ]) {
    const heard: [string, string | undefined][] = []
    const calls = names.map((name) => {
      const { promise: told, resolve } = deferred()
      const onprogress = (): void => {
        heard.push([name, caller.getStore()])
        resolve()
      }
      const params = { name: 'slow', arguments: { name } }
      const call = caller.run(name, () => client.callTool(params, undefined, { onprogress }))
      return { call, told }
    })
    for (const name of names) {
      await server.waitFor(({ params }) => JSON.stringify(params ?? {}).includes(`"${name}"`))
    }
    await client.ping() // by now they all wait
    await server.progress(1)
    await Promise.all(calls.map(({ told }) => told))
    expect(heard.toSorted(([one], [other]) => one.localeCompare(other))).toEqual(
      names.map((name) => [name, name]),
    )
    server.release()
    await Promise.all(calls.map(({ call }) => call))
  }
  await client.close()
})

test('a cancellation asks for its headers in the async context of its call, whoever aborts it', async () => {
  await using server = await startLegacyServer({ listenStream: 'refuse-405' })
  const caller = new AsyncLocalStorage<string>()
  const users: (string | undefined)[] = []
  const transport = new StreamableHttpTransport(server.url, {
    era: 'legacy',
    headers({ rpcMethod }) {
      if (rpcMethod === 'notifications/cancelled') users.push(caller.getStore())
      return {}
    },
  })
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(transport)
  const abort = new AbortController()
  const params = { name: 'slow', arguments: {} }
  const call = caller.run('ada', () => client.callTool(params, undefined, { signal: abort.signal }))
  await server.waitFor(({ toolName }) => toolName === 'slow')
  caller.run('bob', () => abort.abort())
  await expect(call).rejects.toThrow(/abort/i)
  await server.waitFor(({ rpcMethod }) => rpcMethod === 'notifications/cancelled')
  expect(users).toEqual(['ada'])
  await client.close()
})
