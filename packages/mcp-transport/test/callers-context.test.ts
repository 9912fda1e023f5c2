import { AsyncLocalStorage } from 'node:async_hooks'
import { setImmediate } from 'node:timers/promises'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { deferred, startLegacyServer, startRecordingProxy } from '@x/mcp-testing'
import type { LegacyServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { bearer } from '../src/auth/index.ts'
import { SessionInfo, StreamableHttpTransport } from '../src/index.ts'
import type { StreamableHttpTransportOptions } from '../src/index.ts'

test('delivers messages on the response to a call in the async context of that call', async () => {
  await using server = await startLegacyServer({ answerAs: 'sse', listenStream: 'refuse-405' })
  const transport = new StreamableHttpTransport(server.url, { era: 'legacy' })
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(transport)
  const caller = new AsyncLocalStorage<string>()
  for (const names of [
    ['a', 'b', 'c'],
    ['d', 'e', 'f'], // on the connections of the first calls
  ]) {
    const activity: [string, string | undefined][] = []
    const calls = names.map((name) => {
      const { promise: notified, resolve } = deferred()
      const onprogress = (): void => {
        activity.push([name, caller.getStore()])
        resolve()
      }
      const params = { name: 'slow', arguments: { name } }
      const call = caller.run(name, () => client.callTool(params, undefined, { onprogress }))
      return { call, notified }
    })
    for (const name of names) {
      await server.waitFor(({ params }) => JSON.stringify(params ?? {}).includes(`"${name}"`))
    }
    await client.ping() // now all calls wait
    await server.progress(1)
    await Promise.all(calls.map(({ notified }) => notified))
    expect(activity.toSorted(([one], [other]) => one.localeCompare(other))).toEqual(
      names.map((name) => [name, name]),
    )
    server.release()
    await Promise.all(calls.map(({ call }) => call))
  }
  await client.close()
})

test('runs header functions of a cancellation in the async context of its call', async () => {
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

const user = new AsyncLocalStorage<string>()

/** A transport that sends the name of the user of the async context with each request. */
function transportTo(
  { url }: { readonly url: string },
  options: StreamableHttpTransportOptions = {},
): StreamableHttpTransport {
  const headers = (): Record<string, string> => ({ 'x-user': user.getStore() ?? 'nobody' })
  return new StreamableHttpTransport(url, { era: 'legacy', headers, ...options })
}

/** Method and user of each request. */
const usersOf = ({ received }: LegacyServer): string[] =>
  received.map(({ rpcMethod, httpMethod, headers }) =>
    [rpcMethod ?? httpMethod, String(headers['x-user'])].join(' of '),
  )

test('opens, replaces and ends a session with the credentials of its owner, and repeats calls with those of their callers', async () => {
  await using server = await startLegacyServer()
  const transport = transportTo(server, { onSessionLost: 'reinitialize' })
  const client = new Client({ name: 'test', version: '1.0.0' })
  await user.run('bob', () => client.connect(transport))
  await user.run('bob', () => client.setLoggingLevel('debug'))
  server.forgetSessions()
  const call = (name: string): Promise<unknown> =>
    user.run(name, () => client.callTool({ name: 'echo', arguments: { text: name } }))
  await Promise.all([call('ada'), call('bob')])
  await user.run('ada', () => transport.terminateSession())
  await client.close()
  const users = usersOf(server)
  expect(users.filter((one) => one.startsWith('tools/call')).toSorted()).toEqual([
    'tools/call of ada',
    'tools/call of ada',
    'tools/call of bob',
    'tools/call of bob',
  ])
  const others = users.filter((one) => !one.startsWith('tools/call'))
  expect(others.filter((one) => !one.endsWith(' of bob'))).toEqual([])
  expect(others.filter((one) => /^(initialize|GET|DELETE|logging)/.test(one))).toHaveLength(7)
})

test('ends the session of an aborted handshake with the credentials of its owner, also if another user aborts it', async () => {
  await using server = await startLegacyServer()
  await using proxy = await startRecordingProxy(server.url)
  proxy.inject({
    match: ({ rpcMethod }) => rpcMethod === 'notifications/initialized',
    action: 'hang',
  })
  const transport = transportTo(proxy)
  const client = new Client({ name: 'test', version: '1.0.0' })
  const connecting = user.run('bob', () => client.connect(transport))
  await proxy.waitFor(({ rpcMethod }) => rpcMethod === 'notifications/initialized')
  const closing = user.run('ada', () => transport.close())
  await expect(connecting).rejects.toMatchObject({ code: 'CLOSED' })
  await closing
  expect(usersOf(server).at(-1)).toBe('DELETE of bob')
})

test('resumes the stream of a call, and renews its token, in the async context of its caller', async () => {
  await using server = await startLegacyServer({ answerAs: 'sse' })
  let tokens = 0
  const authProvider = bearer(() => `${user.getStore()}-${++tokens}`)
  await using proxy = await startRecordingProxy(server.url)
  const transport = transportTo(proxy, { authProvider })
  const client = new Client({ name: 'test', version: '1.0.0' })
  await user.run('bob', () => client.connect(transport))
  proxy.inject({
    match: ({ toolName }) => toolName !== undefined,
    times: 1,
    action: { status: 401 },
  })
  const call = user.run('ada', () => client.callTool({ name: 'slow', arguments: {} }))
  while (server.held === 0) await setImmediate()
  await client.ping() // by now the client has the id of the first event of the call
  server.dropAnswerStreams()
  await server.waitFor(
    ({ httpMethod, lastEventId }) => httpMethod === 'GET' && lastEventId !== undefined,
  )
  server.release()
  await call
  await client.close()
  expect(usersOf(server).filter((one) => one.startsWith('GET'))).toEqual([
    'GET of bob',
    'GET of ada',
  ])
  const calls = proxy.exchanges.filter(({ toolName }) => toolName !== undefined)
  expect(calls.map(({ principal }) => principal?.split('-')[0])).toEqual(['ada', 'ada'])
})

test.each(['getRecord', 'setRecord'] as const)(
  'rejects connect() with CLOSED when the transport is closed while its store answers %s()',
  async (method) => {
    await using server = await startLegacyServer({ listenStream: 'refuse-405' })
    const { promise: asked, resolve: ask } = deferred()
    const { promise: answer, resolve: give } = deferred()
    class SlowInfo extends SessionInfo {}
    SlowInfo.prototype[method] = async () => {
      ask()
      await answer
      return undefined
    }
    const transport = transportTo(server, { sessionInfo: new SlowInfo() })
    const client = new Client({ name: 'test', version: '1.0.0' })
    const connecting = client.connect(transport)
    await asked
    const closing = transport.close()
    give()
    await expect(connecting).rejects.toMatchObject({ code: 'CLOSED', outcome: 'not-executed' })
    await closing
  },
)

test('sends the trace context of the caller in _meta', async () => {
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  await using server = await startLegacyServer()
  const client = new Client({ name: 'app', version: '1' })
  await client.connect(
    new StreamableHttpTransport(server.url, { traceContext: () => ({ traceparent }) }),
  )
  await client.callTool({ name: 'echo', arguments: { text: 'x' } })
  await client.close()
  const call = server.received.find(({ rpcMethod }) => rpcMethod === 'tools/call')
  expect(call?.params).toMatchObject({ _meta: { traceparent } })
})
