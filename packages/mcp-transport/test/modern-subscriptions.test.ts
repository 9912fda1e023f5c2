// Notifications between requests, on one listening stream that fits the subscriptions.
import { deferred, discoverResult, startScriptedServer } from '@x/mcp-testing'
import type { Script, ScriptedListener, ScriptedServer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { StreamableHttpTransport } from '../src/index.ts'
import type { StreamableHttpTransportOptions } from '../src/index.ts'
import { failureIn, RawClient } from './raw-client.ts'

const all = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true }
const fast = { firstMs: 1, maxMs: 1, maxAttempts: 2 }

interface Listening extends AsyncDisposable {
  readonly server: ScriptedServer
  readonly client: RawClient
}

/** A server with these capabilities only. */
const offering = (capabilities: object): Script => ({
  'server/discover': { result: { ...discoverResult, capabilities } },
})

/** A client that listens to all changes that the server announces. */
async function listening(
  script: Script = {},
  options: StreamableHttpTransportOptions = {},
): Promise<Listening> {
  const server = await startScriptedServer(script)
  const transport = new StreamableHttpTransport(server.url, { reconnect: fast, ...options })
  const client = new RawClient(transport)
  await client.handshake()
  client.messages.length = 0
  return {
    server,
    client,
    async [Symbol.asyncDispose]() {
      await client[Symbol.asyncDispose]()
      await server[Symbol.asyncDispose]()
    },
  }
}

const nextAfter = (
  server: ScriptedServer,
  ...known: readonly ScriptedListener[]
): Promise<ScriptedListener> => server.waitForListener((one) => !known.includes(one))

const methodsOf = ({ messages }: RawClient): unknown[] =>
  messages.map((one) => ('method' in one ? one.method : one.id))

describe('list changes', () => {
  test('are requested if the server announces them, and reach the client', async () => {
    await using given = await listening()
    const { server, client } = given
    const listener = await nextAfter(server)
    expect(listener.requested).toEqual(all)
    listener.notify('notifications/tools/list_changed')
    listener.send(': still here\n\n')
    listener.notify('notifications/prompts/list_changed')
    await client.until(() => client.messages.length === 2)
    expect(methodsOf(client)).toEqual([
      'notifications/tools/list_changed',
      'notifications/prompts/list_changed',
    ])
    expect(server.violations).toEqual([])
  })

  test.each([
    ['the server has none', offering({ tools: {} }), {}],
    ['the user wants none', {}, { listen: false }],
  ])('need no stream if %s', async (_name, script, options) => {
    await using given = await listening(script, options)
    await given.client.request('ping')
    expect(given.server.count('subscriptions/listen')).toBe(0)
  })

  test.each([
    ['-32601', { error: { code: -32601 } }],
    ['a bare 404', { status: 404 }],
    ['405', { status: 405 }],
    ['400 with a code', { error: { code: -32602 } }],
  ])('are requested only once if the server refuses with %s', async (_name, answer) => {
    await using server = await startScriptedServer({ 'subscriptions/listen': answer })
    const transport = new StreamableHttpTransport(server.url, { reconnect: fast })
    await using client = new RawClient(transport)
    await client.handshake()
    await server.waitFor(
      ({ rpcMethod, end }) => rpcMethod === 'subscriptions/listen' && end === 'complete',
    )
    for (let turn = 0; turn < 3; turn++) await client.request('ping')
    expect(server.count('subscriptions/listen')).toBe(1)
    expect(client.errors).toEqual([])
  })

  test('are requested again if the server is overloaded', async () => {
    await using server = await startScriptedServer({
      'subscriptions/listen': ({ message }) =>
        server.count('subscriptions/listen') > 1
          ? undefined
          : { status: 503, id: message.id ?? null, error: { code: -32000 } },
    })
    const transport = new StreamableHttpTransport(server.url, { reconnect: fast })
    await using client = new RawClient(transport)
    await client.handshake()
    await nextAfter(server)
    expect(client.errors).toEqual([])
  })
})

describe('a broken stream', () => {
  test.each(['reset', 'eof', 'answered'] as const)(
    '(%s) is reopened, and changes that were missed are reported',
    async (how) => {
      await using given = await listening()
      const { server, client } = given
      const first = await nextAfter(server)
      first.notify('notifications/tools/list_changed')
      await client.until(() => client.messages.length === 1)
      server.acknowledge = () => ({ toolsListChanged: true, resourceSubscriptions: ['a://b'] })
      if (how === 'answered') first.end()
      else first.drop(how)
      await nextAfter(server, first)
      await client.until(() => client.messages.length === 3)
      expect(client.messages.slice(1)).toEqual([
        { jsonrpc: '2.0', method: 'notifications/tools/list_changed' },
        { jsonrpc: '2.0', method: 'notifications/resources/updated', params: { uri: 'a://b' } },
      ])
      expect(client.errors).toEqual([])
    },
  )

  test('without messages causes one error after several breaks, and is still reopened', async () => {
    await using given = await listening()
    const { server, client } = given
    const known: ScriptedListener[] = []
    for (let round = 0; round < 3; round++) {
      const listener = await nextAfter(server, ...known)
      known.push(listener)
      listener.drop('eof')
    }
    await client.until(() => client.errors.length > 0)
    expect(client.errors).toMatchObject([{ code: 'UNREACHABLE' }])
    known.push(await nextAfter(server, ...known))
    expect([server.count('subscriptions/listen'), client.errors.length]).toEqual([4, 1])
  })

  test('causes no error if each stream brought a message', async () => {
    await using given = await listening()
    const { server, client } = given
    const known: ScriptedListener[] = []
    for (let round = 0; round < 6; round++) {
      const listener = await nextAfter(server, ...known)
      known.push(listener)
      const before = client.messages.length
      listener.notify('notifications/message', { level: 'info', data: round })
      await client.until(() =>
        client.messages
          .slice(before)
          .some((one) => 'method' in one && one.method === 'notifications/message'),
      )
      listener.drop('eof')
    }
    await nextAfter(server, ...known)
    expect(client.errors).toEqual([])
  })

  test('that was open before is reported if the server refuses it', async () => {
    await using given = await listening()
    const { server, client } = given
    const first = await nextAfter(server)
    first.notify('notifications/tools/list_changed')
    await client.until(() => client.messages.length === 1)
    server.answers = { 'subscriptions/listen': { error: { code: -32601, message: 'No more' } } }
    first.drop()
    await client.until(() => client.errors.length > 0)
    expect(client.errors).toMatchObject([{ code: 'REJECTED', serverError: { code: -32601 } }])
  })

  test('that was never open is reported once', async () => {
    await using server = await startScriptedServer({ 'subscriptions/listen': { end: 'cut' } })
    const transport = new StreamableHttpTransport(server.url, { reconnect: fast })
    await using client = new RawClient(transport)
    await client.handshake()
    await client.until(() => client.errors.length > 0)
    expect(client.errors).toMatchObject([
      { code: 'UNREACHABLE', cause: { code: 'OUTCOME_UNKNOWN' } },
    ])
    expect(server.count('subscriptions/listen')).toBe(3)
  })
})

describe('a subscription', () => {
  test('is answered when the new stream is acknowledged, and only then the old stream is closed', async () => {
    await using given = await listening()
    const { server, client } = given
    const first = await nextAfter(server)
    server.acknowledge = 'later'
    const subscribed = client.request('resources/subscribe', { uri: 'a://b' })
    const second = await nextAfter(server, first)
    expect(second.requested).toEqual({ ...all, resourceSubscriptions: ['a://b'] })
    expect(first.isOpen).toBe(true)
    first.notify('notifications/tools/list_changed')
    await client.until(() => client.messages.length === 1)
    second.acknowledge()
    await expect(subscribed).resolves.toEqual({ jsonrpc: '2.0', id: 1, result: {} })
    await server.waitForListener((one) => one === first && !one.isOpen)
    second.notify('notifications/resources/updated', { uri: 'a://b' })
    await client.until(() => client.messages.length === 3)
    expect(methodsOf(client)).toEqual([
      'notifications/tools/list_changed',
      1,
      'notifications/resources/updated',
    ])
    expect(server.listeners).toEqual([second])
  })

  test('reports the changes that were missed while the stream was broken', async () => {
    const broken = deferred()
    await using given = await listening(offering({ tools: { listChanged: true } }), {
      reconnect: { ...fast, firstMs: 600_000, maxMs: 600_000 },
      onExchange: ({ rpcMethod }) => {
        if (rpcMethod === 'subscriptions/listen') broken.resolve()
      },
    })
    const { server, client } = given
    const first = await nextAfter(server)
    first.drop()
    await broken.promise
    await client.request('ping')
    client.messages.length = 0
    await client.request('resources/subscribe', { uri: 'a://b' })
    expect(methodsOf(client)).toEqual([
      'notifications/tools/list_changed',
      'notifications/resources/updated',
      2,
    ])
  })

  test('fails if the server does not acknowledge it, and the old stream stays', async () => {
    await using given = await listening()
    const { server, client } = given
    const first = await nextAfter(server)
    server.acknowledge = () => all
    await expect(client.request('resources/subscribe', { uri: 'a://b' })).resolves.toMatchObject({
      error: { code: -32602, message: expect.stringContaining('a://b') },
    })
    await server.waitForListener((one) => one !== first && !one.isOpen)
    expect(server.listeners).toEqual([first])
  })

  test('fails once with the reason if it cannot be sent, and the old stream stays', async () => {
    await using given = await listening()
    const { server, client } = given
    const first = await nextAfter(server)
    server.answers = { 'subscriptions/listen': { end: 'cut' } }
    const failure = failureIn(await client.request('resources/subscribe', { uri: 'a://b' }))
    expect(failure.code).toBe('UNREACHABLE')
    expect(client.errors).toEqual([])
    expect(server.listeners).toEqual([first])
  })

  test('shares one stream with repeated and concurrent subscriptions', async () => {
    await using given = await listening()
    const { server, client } = given
    await nextAfter(server)
    const uris = ['a://1', 'a://2', 'a://1', 'a://3']
    await Promise.all(uris.map((uri) => client.request('resources/subscribe', { uri })))
    const last = await server.waitForListener(({ requested }) =>
      JSON.stringify(requested).includes('a://3'),
    )
    expect(last.requested).toMatchObject({ resourceSubscriptions: ['a://1', 'a://2', 'a://3'] })
    await server.waitForListener(() => server.listeners.length === 1)
    expect(server.count('subscriptions/listen')).toBe(4)
  })

  test('ends with a stream without its URI, or without a stream if nothing else is subscribed', async () => {
    await using given = await listening(offering({ resources: { subscribe: true } }))
    const { server, client } = given
    expect(server.count('subscriptions/listen')).toBe(0)
    await client.request('resources/subscribe', { uri: 'a://1' })
    await client.request('resources/subscribe', { uri: 'a://2' })
    await client.request('resources/unsubscribe', { uri: 'a://1' })
    await server.waitForListener(() => server.listeners.length === 1)
    expect(server.listeners[0]?.requested).toEqual({ resourceSubscriptions: ['a://2'] })
    await client.request('resources/unsubscribe', { uri: 'a://2' })
    await client.request('resources/unsubscribe', { uri: 'never://subscribed' })
    await server.waitForListener(() => server.listeners.length === 0)
    expect(server.count('subscriptions/listen')).toBe(3)
    expect(server.count('resources/unsubscribe')).toBe(0)
  })

  test('changes nothing if it is cancelled before it is acknowledged', async () => {
    await using given = await listening()
    const { server, client } = given
    const first = await nextAfter(server)
    server.acknowledge = 'later'
    void client.request('resources/subscribe', { uri: 'a://1' })
    void client.request('resources/subscribe', { uri: 'a://2' }) // waits for its turn
    const second = await nextAfter(server, first)
    await client.notify('notifications/cancelled', { requestId: 2 })
    await client.notify('notifications/cancelled', { requestId: 1 })
    await server.waitForListener((one) => one === second && !one.isOpen)
    server.acknowledge = 'all'
    await expect(client.request('resources/subscribe', { uri: 'a://3' })).resolves.toMatchObject({
      result: {},
    })
    await server.waitForListener(() => server.listeners.length === 1)
    expect(server.listeners[0]?.requested).toMatchObject({ resourceSubscriptions: ['a://3'] })
    expect(server.count('subscriptions/listen')).toBe(3)
    expect(client.errors).toEqual([])
  })

  test('keeps its stream if the server refuses the stream without it', async () => {
    await using given = await listening()
    const { server, client } = given
    const first = await nextAfter(server)
    await client.request('resources/subscribe', { uri: 'a://1' })
    const second = await nextAfter(server, first)
    server.answers = { 'subscriptions/listen': { status: 404 } }
    await expect(client.request('resources/unsubscribe', { uri: 'a://1' })).resolves.toMatchObject({
      result: {},
    })
    expect(server.listeners).toEqual([second])
    expect(client.errors).toEqual([])
  })
})
