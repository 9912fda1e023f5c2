// A server that is replaced by a server of the other era.
import { Client as ClientV2 } from '@modelcontextprotocol/client'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import {
  deferred,
  discoverResult,
  startRecordingProxy,
  startReplaceableServer,
  startScriptedServer,
} from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { SessionInfo, StreamableHttpTransport } from '../src/index.ts'
import type {
  JsonRpcRequest,
  SessionRecord,
  SessionReplaced,
  StreamableHttpTransportOptions,
} from '../src/index.ts'
import { isRequest } from '../src/json-rpc.ts'
import { connectRaw, rawClient } from './raw-client.ts'
import type { RawClient } from './raw-client.ts'
import { errorOf, json, resultOf, scriptedServer } from './scripted-server.ts'
import type { ScriptedServer } from './scripted-server.ts'

const clients = [
  ['v1', ClientV1],
  ['v2', ClientV2],
] as const

interface App extends AsyncDisposable {
  readonly transport: StreamableHttpTransport
  readonly replaced: SessionReplaced[]
  echo(text: string): Promise<unknown>
  slow(signal?: AbortSignal): Promise<unknown>
}

async function startApp(
  Client: typeof ClientV1 | typeof ClientV2,
  url: string,
  options: StreamableHttpTransportOptions = { onSessionLost: 'reinitialize' },
): Promise<App> {
  const replaced: SessionReplaced[] = []
  const transport = new StreamableHttpTransport(url, {
    ...options,
    onSessionReplaced: (event) => replaced.push(event),
  })
  const client = new Client({ name: 'app', version: '1.0.0' })
  await client.connect(transport)
  const call = async (
    name: string,
    args: Record<string, unknown>,
    signal?: AbortSignal,
  ): Promise<unknown> => {
    const request = { name, arguments: args }
    const cancel = signal === undefined ? {} : { signal }
    const { content } =
      client instanceof ClientV1
        ? await client.callTool(request, undefined, cancel)
        : await client.callTool(request, cancel)
    return content
  }
  return {
    transport,
    replaced,
    echo: (text) => call('echo', { text }),
    slow: (signal) => call('slow', {}, signal),
    [Symbol.asyncDispose]: () => client.close(),
  }
}

const said = (text: string): unknown => [{ type: 'text', text }]

test('answers calls and sends nothing more when the client closes during another negotiation of the era', async () => {
  await using server = await startReplaceableServer('modern')
  await using proxy = await startRecordingProxy(server.url)
  const app = await startApp(ClientV1, proxy.url)
  server.kind = 'legacy'
  proxy.inject({ match: ({ rpcMethod }) => rpcMethod === 'initialize', action: 'hang' })
  const call = app.echo('a').catch((error: unknown) => error)
  await proxy.waitFor(({ rpcMethod }) => rpcMethod === 'initialize')
  await app[Symbol.asyncDispose]()
  expect(await call).toMatchObject({ data: { code: 'CLOSED' } })
  expect(server.ledger.executions('echo')).toBe(0)
  expect(app.replaced).toEqual([])
})

test('sends nothing more after a close() while the store is read for the other era', async () => {
  for (let delay = 0; delay < 40; delay++) {
    const server = scriptedServer((seen) => {
      if (seen.what === 'POST tools/call') return json(errorOf(seen, -32000, 'No session'), {}, 400)
      if (seen.what !== 'POST server/discover') return undefined
      return server.count(seen.what) === 1
        ? json(resultOf(seen, discoverResult))
        : json(errorOf(seen, -32601, 'Method not found'), {}, 404)
    })
    let posted = 0
    const dispatcher = server.dispatcher.compose((dispatch) => (options, handler) => {
      if (options.method === 'POST') posted++ // DELETE ends a session that was just opened
      return dispatch(options, handler)
    })
    const sessionInfo = new HeldSessionInfo()
    await using client = await connectRaw(server, {
      era: 'auto',
      dispatcher,
      sessionInfo,
      listen: false,
      onSessionLost: 'reinitialize',
    })
    sessionInfo.isHeld = true
    const call = client.failureOf('tools/call')
    await sessionInfo.asked.promise
    sessionInfo.gate.resolve()
    for (let n = 0; n < delay; n++) await Promise.resolve()
    const before = posted
    await client.transport.close()
    await expect(call).resolves.toHaveProperty('code', 'CLOSED')
    expect(posted).toBe(before)
  }
})

/** A session store whose record can be read only after `gate`. */
class HeldSessionInfo extends SessionInfo {
  readonly asked = deferred()
  readonly gate = deferred()
  isHeld = false

  override async getRecord(): Promise<SessionRecord | undefined> {
    if (this.isHeld) {
      this.asked.resolve()
      await this.gate.promise
    }
    return super.getRecord()
  }
}

test('keeps the unknown outcome of a call if no session can be opened', async () => {
  await using server = await startScriptedServer()
  await using client = await connectRaw(server.url, {
    onSessionLost: 'reinitialize',
    listen: false,
  })
  server.answers = ({ message }) => {
    if (message.method === 'server/discover') return { status: 404, error: { code: -32601 } }
    if (message.method === 'initialize') return { status: 401 }
    return { status: 400, error: { code: -32000, message: 'Session not found' } }
  }
  const failure = await client.failureOf('tools/call', { name: 'pay' })
  expect(failure).toMatchObject({ code: 'SESSION_LOST', certain: false, outcome: 'unknown' })
  expect([server.count('initialize'), server.count('tools/call')]).toEqual([1, 1])
})

test('a stateless server that replaces one with sessions gets the log level and the subscriptions', async () => {
  await using server = await startReplaceableServer('legacy')
  await using client = await connectRaw(server.url, { onSessionLost: 'reinitialize' })
  const uri = 'counter://value'
  await client.request('logging/setLevel', { level: 'error' })
  await client.request('resources/subscribe', { uri })
  server.kind = 'modern'
  await client.request('tools/call', { name: 'echo', arguments: { text: 'a' } })
  const call = server.modern.received.findLast(({ toolName }) => toolName === 'echo')
  expect(call?.params).toMatchObject({ _meta: { 'io.modelcontextprotocol/logLevel': 'error' } })
  server.modern.resourceUpdated(uri)
  const updated = 'notifications/resources/updated'
  await client.until(() => client.messages.some((one) => 'method' in one && one.method === updated))
})

describe.each(clients)('the client of SDK %s', (_sdk, Client) => {
  describe.each([
    ['legacy', 'modern'],
    ['modern', 'legacy'],
  ] as const)('on a server that changes from %s to %s', (before, after) => {
    test('continues with one execution of each call and one negotiation', async () => {
      await using server = await startReplaceableServer(before)
      await using app = await startApp(Client, server.url)
      expect(await app.echo('a')).toEqual(said('a'))
      server.kind = after
      const answers = await Promise.all(['b', 'c', 'd'].map((text) => app.echo(text)))
      expect(answers).toEqual(['b', 'c', 'd'].map(said))
      expect(app.transport).toMatchObject({ era: after, epoch: 2 })
      expect(app.replaced).toMatchObject([{ oldEpoch: 1, newEpoch: 2 }])
      server.kind = before
      server.legacy.forgetSessions()
      expect(await app.echo('e')).toEqual(said('e'))
      expect(app.transport).toMatchObject({ era: before, epoch: 3 })
      expect(app.replaced).toMatchObject([{}, { oldEpoch: 2, newEpoch: 3 }])
      expect(server.ledger.executions('echo')).toBe(5)
    })

    test('gets the answer of a call that was in flight before the change', async () => {
      await using server = await startReplaceableServer(before)
      await using app = await startApp(Client, server.url)
      const slow = app.slow()
      await server[before].waitFor(({ toolName }) => toolName === 'slow')
      server.kind = after
      expect(await app.echo('b')).toEqual(said('b'))
      server[before].release('done')
      expect(await slow).toEqual(said('done'))
      expect(server.ledger.executions('slow')).toBe(1)
    })

    test('cancels a call that was in flight before', async () => {
      await using server = await startReplaceableServer(before)
      await using app = await startApp(Client, server.url)
      const cancelling = new AbortController()
      const slow = app.slow(cancelling.signal).catch((error: unknown) => error)
      const call = await server[before].waitFor(({ toolName }) => toolName === 'slow')
      server.kind = after
      await app.echo('b')
      cancelling.abort()
      await slow
      await expect.poll(() => call.end).toBe('client-gone')
    })

    test('gets SESSION_LOST without `reinitialize`, and the next client works', async () => {
      await using server = await startReplaceableServer(before)
      const sessionInfo = new SessionInfo()
      await using app = await startApp(Client, server.url, { sessionInfo })
      server.kind = after
      await expect(app.echo('a')).rejects.toMatchObject({
        data: { code: 'SESSION_LOST', certain: true },
      })
      await using next = await startApp(Client, server.url, { sessionInfo })
      expect(await next.echo('b')).toEqual(said('b'))
      expect(server.ledger.executions('echo')).toBe(1)
    })
  })
})

describe('a stateless server that gets sessions during a call', () => {
  // A rolling deployment: the instance with sessions answers one request, a stateless one the next.
  test.each([
    ['and is stateless again', 1],
    ['for good', Infinity],
  ])('%s, passes the answer of the user to the call that asked', async (_title, refusals) => {
    const server = changingServer({ refusals })
    await using client = rawClient(server, changing)
    await client.handshake({ elicitation: {} })
    const pay = client.request('tools/call', { name: 'pay' })
    await client.until(() => questions(client).length === 1)
    const other = client.request('tools/call', { name: 'change' })
    if (refusals === 1) await client.until(() => questions(client).length === 2)
    else await other
    const [question, otherQuestion] = questions(client)
    expect(otherQuestion?.id).not.toBe(question?.id)
    const result = { action: 'accept' }
    await client.transport.send({ jsonrpc: '2.0', id: question?.id ?? '', result })
    await pay
    const answered = server.seen.filter(({ params }) => params?.['inputResponses'] !== undefined)
    expect(answered.map(({ params }) => params)).toMatchObject([
      { name: 'pay', inputResponses: { ok: result }, requestState: 'pay' },
    ])
  })

  test('gets the log level in its session', async () => {
    const server = changingServer()
    await using client = await connectRaw(server, changing)
    await client.request('logging/setLevel', { level: 'error' })
    await client.request('tools/call', { name: 'change' })
    const { params, sessionId } = await server.waitFor('POST logging/setLevel')
    expect([params, sessionId]).toEqual([{ level: 'error' }, client.transport.sessionId])
  })

  test('answers its earlier calls on terminateSession()', async () => {
    const server = changingServer()
    await using client = await connectRaw(server, changing)
    const slow = client.failureOf('tools/call', { name: 'slow' })
    await server.waitFor('POST tools/call')
    await client.request('tools/call', { name: 'change' })
    expect(client.transport.era).toBe('legacy')
    await client.transport.terminateSession()
    expect(await slow).toMatchObject({ code: 'CLOSED', outcome: 'unknown' })
    expect(server.count('DELETE')).toBe(1)
  })

  test('answers its earlier calls on another initialize', async () => {
    const server = changingServer()
    await using client = await connectRaw(server, changing)
    const slow = client.failureOf('tools/call', { name: 'slow' })
    await server.waitFor('POST tools/call')
    await client.request('tools/call', { name: 'change' })
    await client.request('initialize', { protocolVersion: '2025-11-25', capabilities: {} })
    expect(await slow).toMatchObject({ code: 'CLOSED', outcome: 'unknown' })
  })

  test('cancels a call at once, also while the store is read', async () => {
    const server = changingServer()
    const sessionInfo = new HeldSessionInfo()
    await using client = await connectRaw(server, { ...changing, sessionInfo })
    void client.request('tools/call', { name: 'slow' })
    const slow = await server.waitFor('POST tools/call')
    sessionInfo.isHeld = true
    void client.request('tools/call', { name: 'change' })
    await sessionInfo.asked.promise
    const cancelled = client.notify('notifications/cancelled', { requestId: 1 })
    expect(slow.signal.aborted).toBe(true)
    sessionInfo.gate.resolve()
    await cancelled
  })

  test('sends a request at most twice', async () => {
    const server = changingServer({ sessions: () => new Response(null, { status: 404 }) })
    await using client = await connectRaw(server, changing)
    const failure = await client.failureOf('tools/call', { name: 'change' })
    expect(failure).toMatchObject({ code: 'SESSION_LOST' })
    expect(server.count('POST tools/call')).toBe(2)
  })
})

const changing = { era: 'auto', listen: false, onSessionLost: 'reinitialize' } as const

const noSession = { jsonrpc: '2.0', id: null, error: { code: -32000, message: 'No session ID' } }

/** A stateless server. A call of the tool `change` replaces it by a server with sessions, for `refusals` requests. */
function changingServer({
  refusals = Infinity,
  sessions = () => undefined,
}: {
  readonly refusals?: number
  /** Answers calls in sessions. */
  readonly sessions?: () => Response | undefined
} = {}): ScriptedServer {
  let isChanged = false
  let left = refusals
  return scriptedServer((seen) => {
    const isStateless = !isChanged || left <= 0
    if (seen.what === 'POST server/discover') {
      if (isStateless) return json(resultOf(seen, discoverResult))
      left--
      return json(errorOf(seen, -32601, 'Method not found'), {}, 404)
    }
    if (seen.what !== 'POST tools/call') return undefined
    const name = seen.params?.['name']
    if (name === 'slow') return new Promise(() => {})
    if (name === 'change' && !isChanged) {
      isChanged = true
      return json(noSession, {}, 400)
    }
    if (!isStateless) return sessions()
    if (seen.params?.['inputResponses'] !== undefined) {
      return json(resultOf(seen, { resultType: 'complete', content: [] }))
    }
    const params = { message: 'Go on?', requestedSchema: { type: 'object', properties: {} } }
    const inputRequests = { ok: { method: 'elicitation/create', params } }
    const required = { resultType: 'input_required', inputRequests, requestState: name }
    return json(resultOf(seen, required))
  })
}

function questions(client: RawClient): JsonRpcRequest[] {
  return client.messages.filter((message) => isRequest(message))
}
