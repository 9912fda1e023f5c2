// The client of SDK v2 in each of its modes, on servers of each kind.
import { Client } from '@modelcontextprotocol/client'
import type { ClientOptions } from '@modelcontextprotocol/client'
import { deferred, startModernServer, startLegacyServer, startScriptedServer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { StreamableHttpTransport } from '../src/index.ts'

interface Connected extends AsyncDisposable {
  readonly client: Client
  readonly transport: StreamableHttpTransport
  readonly errors: Error[]
}

type Mode = NonNullable<NonNullable<ClientOptions['versionNegotiation']>['mode']>

const pin: Mode = { pin: '2026-07-28' }

async function connect(url: string, mode: Mode, options: ClientOptions = {}): Promise<Connected> {
  const client = new Client(
    { name: 'v2', version: '1.0.0' },
    { ...options, versionNegotiation: { mode } },
  )
  const transport = new StreamableHttpTransport(url)
  const errors: Error[] = []
  client.onerror = (error) => errors.push(error)
  await client.connect(transport)
  return { client, transport, errors, [Symbol.asyncDispose]: () => client.close() }
}

const modes = [
  ['legacy', 'legacy'],
  ['auto', 'auto'],
  ['pinned', pin],
] as const
const [bridged, auto, pinned] = modes

describe.each(modes)('%s', (_name, mode) => {
  test.each(['reject', 'serve'] as const)(
    'works on a modern server (legacy: %s)',
    async (legacy) => {
      await using server = await startModernServer({ legacy })
      await using connected = await connect(server.url, mode)
      const { client, transport } = connected
      expect(transport).toMatchObject({ era: 'modern', protocolVersion: '2026-07-28' })
      expect((await client.listTools()).tools.length).toBeGreaterThan(5)
      const result = await client.callTool({ name: 'echo', arguments: { text: 'hi' } })
      expect(result.content).toEqual([{ type: 'text', text: 'hi' }])
      await expect(client.readResource({ uri: 'static://text' })).resolves.toHaveProperty(
        'contents',
      )
      expect([server.count('initialize'), server.count('server/discover')]).toEqual([0, 1])
      expect([server.count('GET'), server.count('DELETE'), connected.errors]).toEqual([0, 0, []])
    },
  )

  test('gets progress in order, before the answer', async () => {
    await using server = await startModernServer()
    await using connected = await connect(server.url, mode)
    const seen: number[] = []
    await connected.client.callTool(
      { name: 'progress' },
      { onprogress: ({ progress }) => seen.push(progress) },
    )
    expect(seen).toEqual([1, 2, 3])
  })
})

describe.each([bridged, auto])('%s on a legacy server', (_name, mode) => {
  test('works with sessions', async () => {
    await using server = await startLegacyServer()
    await using connected = await connect(server.url, mode)
    const { client, transport } = connected
    expect(transport).toMatchObject({ era: 'legacy', sessionId: expect.any(String) })
    const result = await client.callTool({ name: 'counter_add' })
    expect(result.structuredContent).toEqual({ count: 1 })
    expect(server.count('initialize')).toBe(1)
    // One probe: by the transport if the client does not probe, else by the client.
    expect(server.count('server/discover')).toBe(1)
    const abort = new AbortController()
    const call = client.callTool({ name: 'slow' }, { signal: abort.signal })
    await server.waitFor(({ toolName }) => toolName === 'slow')
    abort.abort()
    await expect(call).rejects.toThrow('aborted')
    await server.waitFor(({ rpcMethod }) => rpcMethod === 'notifications/cancelled')
    expect(connected.errors).toEqual([])
  })
})

describe.each([auto, pinned])('%s: a subscription of the client', (_name, mode) => {
  test('opens, reports changes and closes', async () => {
    await using server = await startModernServer()
    await using connected = await connect(server.url, mode)
    const { client } = connected
    const changed = deferred()
    client.setNotificationHandler('notifications/tools/list_changed', () => changed.resolve())
    const subscription = await client.listen({ toolsListChanged: true })
    const listener = await server.waitForListener(({ isOpen }) => isOpen)
    server.toolsChanged()
    await changed.promise
    await subscription.close()
    await server.waitForListener((one) => one === listener && !one.isOpen)
    const second = await client.listen({ toolsListChanged: true })
    await server.waitForListener((one) => one !== listener && one.isOpen)
    server.dropListeners()
    await expect(second.closed).resolves.toBe('remote')
    expect(server.count('notifications/cancelled')).toBe(0)
    expect(connected.errors).toEqual([])
  })

  test('rejects once with the reason if it is refused', async () => {
    await using server = await startScriptedServer({
      'subscriptions/listen': { error: { code: -32601, message: 'No streams here' } },
    })
    await using connected = await connect(server.url, mode)
    await expect(connected.client.listen({ toolsListChanged: true })).rejects.toThrow('No streams')
    expect(connected.errors).toEqual([])
  })
})

test('fails without initialize if the client pins 2026-07-28 on a legacy server', async () => {
  await using server = await startLegacyServer()
  await expect(connect(server.url, pin)).rejects.toThrow('did not offer pinned protocol version')
  expect(server.count('initialize')).toBe(0)
})
