// Several SDK clients that share only a session id.
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Client as ClientV2 } from '@modelcontextprotocol/client'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { startLegacyServer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { SessionInfo, StreamableHttpTransport } from '../src/index.ts'
import type { SessionReplaced } from '../src/index.ts'
import { connectRaw, failureIn, openedBefore, rawClient } from './raw-client.ts'
import { errorOf, json, scriptedServer } from './scripted-server.ts'
import type { ScriptedServer, Seen } from './scripted-server.ts'

/** The minimal contract: only the two methods for the id. */
class SharedId extends SessionInfo {
  readonly #shared: { id?: string | undefined }

  constructor(shared: { id?: string | undefined }) {
    super()
    this.#shared = shared
  }

  override async getSessionId(): Promise<string | undefined> {
    return this.#shared.id
  }

  override async setSessionId(sessionId: string | undefined): Promise<void> {
    this.#shared.id = sessionId
  }
}

interface CountingServer extends AsyncDisposable {
  readonly url: string
  readonly sessions: readonly string[]
  forgetSessions(): void
  count(method: string): number
}

/** The server transport of SDK v1, as its examples use it, with a counter in each session. */
async function startSdkServer(): Promise<CountingServer> {
  const transports = new Map<string, StreamableHTTPServerTransport>()
  const seen: string[] = []
  const http = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const text = Buffer.concat(chunks).toString()
    const body = text === '' ? undefined : (JSON.parse(text) as { method?: string })
    seen.push(body?.method ?? String(request.method))
    const id = request.headers['mcp-session-id']
    let transport = typeof id === 'string' ? transports.get(id) : undefined
    if (transport === undefined && (id !== undefined || body?.method !== 'initialize')) {
      response.writeHead(404).end()
      return
    }
    if (transport === undefined) {
      const opened = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (sessionId) => void transports.set(sessionId, opened),
        onsessionclosed: (sessionId) => void transports.delete(sessionId),
      })
      transport = opened
      const server = new McpServer({ name: 'counting', version: '1.0.0' })
      let count = 0
      server.registerTool('counter_add', {}, () => ({
        content: [{ type: 'text', text: `counter is ${++count}` }],
      }))
      await server.connect(opened)
    }
    await transport.handleRequest(request, response, body)
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    get sessions() {
      return [...transports.keys()]
    },
    forgetSessions: () => transports.clear(),
    count: (method) => seen.filter((one) => one === method).length,
    async [Symbol.asyncDispose]() {
      http.closeAllConnections()
      await new Promise((resolve) => http.close(resolve))
    },
  }
}

interface App extends AsyncDisposable {
  readonly client: ClientV1 | ClientV2
  readonly transport: StreamableHttpTransport
  readonly replaced: SessionReplaced[]
  add(): Promise<unknown>
}

async function startApp(
  Client: typeof ClientV1 | typeof ClientV2,
  url: string,
  shared: { id?: string },
): Promise<App> {
  const replaced: SessionReplaced[] = []
  const transport = new StreamableHttpTransport(url, {
    sessionInfo: new SharedId(shared),
    onSessionLost: 'reinitialize',
    onSessionReplaced: (event) => replaced.push(event),
  })
  const client = new Client({ name: 'app', version: '1.0.0' })
  await client.connect(transport)
  return {
    client,
    transport,
    replaced,
    add: async () => (await client.callTool({ name: 'counter_add' })).content,
    [Symbol.asyncDispose]: () => client.close(),
  }
}

const counted = (count: number): unknown => [{ type: 'text', text: `counter is ${count}` }]

describe.each([
  ['v1', ClientV1],
  ['v2', ClientV2],
] as const)('two clients of SDK %s that share only an id', (_sdk, Client) => {
  test.each([
    ['the server transport of SDK v1', startSdkServer],
    ['a server without the SDK', startLegacyServer],
  ])('use one session alternately, on %s', async (_name, startServer) => {
    await using server = await startServer()
    const shared: { id?: string } = {}
    await using one = await startApp(Client, server.url, shared)
    expect(await one.add()).toEqual(counted(1))
    await using other = await startApp(Client, server.url, shared)
    expect(await other.add()).toEqual(counted(2))
    expect(await one.add()).toEqual(counted(3))
    expect(await other.add()).toEqual(counted(4))
    expect(other.transport).toMatchObject({
      isResumed: true,
      protocolVersion: '2025-11-25',
      sessionId: one.transport.sessionId,
    })
    expect(other.client.getServerCapabilities()).toMatchObject({ tools: {} })
    expect((await other.client.listTools()).tools.length).toBeGreaterThan(0)
    expect(server.sessions).toEqual([shared.id])
    expect(server.count('DELETE')).toBe(0)
    expect([...one.replaced, ...other.replaced]).toEqual([])
  })

  test('open one session after a loss, with a new generation for both', async () => {
    await using server = await startSdkServer()
    const shared: { id?: string } = {}
    await using one = await startApp(Client, server.url, shared)
    await using other = await startApp(Client, server.url, shared)
    await one.add()
    await other.add()
    server.forgetSessions()
    expect(await one.add()).toEqual(counted(1))
    expect(await other.add()).toEqual(counted(2))
    expect(server.sessions).toEqual([shared.id])
    expect(server.count('DELETE')).toBe(0)
    expect(one.replaced).toMatchObject([{ oldEpoch: 1, newEpoch: 2 }])
    expect(other.replaced).toMatchObject([{ oldEpoch: 1, newEpoch: 2 }])
  })
})

/** Refuses `initialize` in a session, like servers that have the session open. `inSession` answers the rest. */
function openSessionServer(
  inSession: (seen: Seen) => Response | Promise<Response> | undefined,
): ScriptedServer {
  return scriptedServer((seen) =>
    seen.what === 'POST initialize' && seen.sessionId !== undefined
      ? json(errorOf({ id: null as never }, -32600, 'Server already initialized'), {}, 400)
      : inSession(seen),
  )
}

const wireOf = (server: ScriptedServer): unknown[] =>
  server.seen.map(({ what, sessionId }) => [what, sessionId])

describe('an open session of which only the id is stored', () => {
  test('is used without a handshake, and its new record saves the next client all requests', async () => {
    const server = openSessionServer(() => undefined)
    const sessionInfo = new SessionInfo('a-known-session')
    {
      await using client = rawClient(server, { sessionInfo, listen: false })
      await expect(client.handshake()).resolves.toMatchObject({
        result: {
          protocolVersion: '2025-11-25',
          serverInfo: { name: 'server.test' },
          capabilities: { tools: {}, prompts: {}, resources: {} },
        },
      })
      await client.request('tools/call')
    }
    expect(wireOf(server)).toEqual([
      ['POST initialize', 'a-known-session'],
      ['POST ping', 'a-known-session'],
      ['POST tools/list', 'a-known-session'],
      ['POST prompts/list', 'a-known-session'],
      ['POST resources/list', 'a-known-session'],
      ['POST tools/call', 'a-known-session'],
    ])
    const ids = server.seen.map(({ id }) => Number(id)).slice(1)
    expect(Math.min(...ids)).toBeGreaterThan(2 ** 20) // other clients may have used small ids
    expect(new Set(ids).size).toBe(ids.length)

    const from = server.seen.length
    await using next = rawClient(server, { sessionInfo, listen: false })
    await next.handshake({ sampling: {} })
    await next.request('tools/call')
    expect(server.wire.slice(from)).toEqual(['POST tools/call'])
  })

  test('has the capabilities for which the server returns lists', async () => {
    const server = openSessionServer((seen) =>
      seen.what === 'POST prompts/list' || seen.what === 'POST resources/list'
        ? json(errorOf(seen, -32601, 'Method not found'))
        : undefined,
    )
    const sessionInfo = new SessionInfo('a-known-session')
    await using client = rawClient(server, { sessionInfo, listen: false })
    const answer = await client.handshake()
    expect('result' in answer && answer.result['capabilities']).toEqual({
      tools: { listChanged: true },
    })
  })

  test('is used with the newest version that the server accepts', async () => {
    const server = openSessionServer((seen) =>
      seen.headers.get('mcp-protocol-version') === '2025-06-18'
        ? undefined
        : json(errorOf({ id: null as never }, -32000, 'Unsupported protocol version'), {}, 400),
    )
    const sessionInfo = new SessionInfo('a-known-session')
    await using client = await connectRaw(server, { sessionInfo, listen: false })
    expect(client.transport.protocolVersion).toBe('2025-06-18')
    await expect(client.request('tools/call')).resolves.toHaveProperty('result')
    expect(server.count('POST ping')).toBe(2)
  })

  test('is used with the version in its record', async () => {
    const server = openSessionServer(() => undefined)
    const sessionInfo = await openedBefore(server)
    const record = await sessionInfo.getRecord()
    if (record === undefined) throw new Error('Nothing stored')
    const { initializeResult: _, ...rest } = record
    await sessionInfo.setRecord({ ...rest, protocolVersion: '2025-03-26' })
    await using client = await connectRaw(server, { sessionInfo, listen: false })
    expect(client.transport.protocolVersion).toBe('2025-03-26')
    const ping = server.seen.find(({ what }) => what === 'POST ping')
    expect(ping?.headers.get('mcp-protocol-version')).toBe('2025-03-26')
  })

  test('is kept if the connection breaks during the checks', async () => {
    const server = openSessionServer((seen) => {
      if (seen.what === 'POST tools/list') throw new Error('reset')
      return undefined
    })
    const sessionInfo = new SessionInfo('a-known-session')
    await using client = rawClient(server, { sessionInfo, listen: false })
    expect(failureIn(await client.handshake())).toHaveProperty('code', 'OUTCOME_UNKNOWN')
    await expect(sessionInfo.getSessionId()).resolves.toBe('a-known-session')
    expect([server.count('DELETE'), server.count('POST initialize')]).toEqual([0, 1])
  })

  test('is replaced without a DELETE if the server has lost it', async () => {
    const server = openSessionServer((seen) =>
      seen.sessionId === 'a-known-session'
        ? json(errorOf({ id: null as never }, -32001, 'Session not found'), {}, 404)
        : undefined,
    )
    const sessionInfo = new SessionInfo('a-known-session')
    await using client = await connectRaw(server, { sessionInfo, listen: false })
    await client.transport.close()
    expect(server.count('DELETE')).toBe(0)
    await expect(sessionInfo.getSessionId()).resolves.toBe('session-1')
  })

  test('is replaced by the session that another client has stored in the meantime', async () => {
    const shared: { id?: string } = { id: 'dead' }
    const server = scriptedServer((seen) => {
      if (seen.what !== 'POST initialize') return undefined
      if (seen.sessionId === 'dead') {
        shared.id = 'alive' // of another client
        return json(errorOf(seen, -32001, 'Session not found'), {}, 404)
      }
      return seen.sessionId === 'alive'
        ? json(errorOf(seen, -32600, 'Server already initialized'), {}, 400)
        : undefined
    })
    await using client = await connectRaw(server, {
      sessionInfo: new SharedId(shared),
      listen: false,
    })
    expect(shared.id).toBe('alive')
    expect(client.transport.sessionId).toBe('alive')
  })
})
