import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { PassThrough } from 'node:stream'

import { deferred } from '@x/mcp-testing'
import { beforeAll, expect, test } from 'vitest'

import { AgentsAtHand, echo, endless } from '../test/agents-at-hand.ts'
import { ManualClock, settled } from '../test/manual-clock.ts'
import { connect } from '../test/mcp-clients.ts'
import {
  eventsOf,
  get,
  initialize,
  inSession,
  openSession,
  OPENING,
  post,
  toolCall,
} from '../test/rpc-requests.ts'
import { twoReplicas, withLogs } from '../test/two-replicas.ts'
import { whenSchemasChecked } from './agents/schemas.ts'
import { bearerAuth } from './http/auth/bearer.ts'
import { createGateway } from './gateway.ts'

beforeAll(whenSchemasChecked)

test('fails to listen on a port in use or out of range, with the cause', async () => {
  const other = createServer()
  await new Promise<void>((resolve) => {
    other.listen(0, '127.0.0.1', resolve)
  })
  const { port } = other.address() as AddressInfo
  await using gateway = createGateway({ sources: [new AgentsAtHand({ echo })] })
  await expect(gateway.listen({ port })).rejects.toMatchObject({
    code: 'LISTEN',
    cause: { code: 'EADDRINUSE' },
  })
  await expect(gateway.listen({ port: 99_999 })).rejects.toMatchObject({
    code: 'LISTEN',
    cause: { code: 'ERR_SOCKET_BAD_PORT' },
  })
  other.close()
})

test('leaves no listener if it closes while it begins to listen', async () => {
  const gateway = createGateway({ sources: [new AgentsAtHand({ echo })] })
  const listening = gateway.listen({ port: 0 })
  await gateway.close()
  await expect(listening).rejects.toMatchObject({ code: 'CLOSED' })
})

test('listens on a public address without auth only if `insecure` is set', async () => {
  await using gateway = createGateway({ sources: [new AgentsAtHand({ echo })] })
  await expect(gateway.listen({ host: '0.0.0.0', port: 0 })).rejects.toMatchObject({
    code: 'CONFIG',
  })
  const listener = await gateway.listen({ host: '0.0.0.0', port: 0, insecure: true })
  expect(listener.port).toBeGreaterThan(0)
})

test('refuses a secret that is too short', () => {
  expect(() => createGateway({ stateKey: 'short' })).toThrow(
    expect.objectContaining({ code: 'CONFIG', path: 'stateKey' }),
  )
})

test('lets calls end when it closes, refuses new calls, and leaves nothing', async () => {
  const finish = deferred()
  const begun = deferred()
  const agents = new AgentsAtHand({
    async *slow() {
      begun.resolve()
      await finish.promise
      yield { type: 'done', text: 'finished in time' }
    },
  })
  const clock = new ManualClock()
  const gateway = createGateway({ sources: [agents], clock })
  const { url } = await gateway.listen({ port: 0 })
  const client = await connect('v1', url)
  const call = client.callTool('slow', 'Go')
  await begun.promise
  const closing = gateway.close()
  const refused = await gateway.fetch(initialize())
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1'])
  finish.resolve()
  await expect(call).resolves.toMatchObject({
    content: [{ type: 'text', text: 'finished in time' }],
  })
  await closing
  await client[Symbol.asyncDispose]()
  expect(clock.pending).toBe(0)
  await expect(gateway.listen({ port: 0 })).rejects.toMatchObject({ code: 'CLOSED' })
})

test('completes a call in flight when its agent is removed', async () => {
  const finish = deferred()
  const agents = new AgentsAtHand({
    echo,
    async *slow() {
      await finish.promise
      yield { type: 'done', text: 'finished' }
    },
  })
  const arrived = deferred()
  await using gateway = createGateway({
    sources: [agents],
    runs: { maxConcurrentPerPrincipal: 1 },
    observer: { callStarted: ({ tool }) => void (tool === 'echo' && arrived.resolve()) },
  })
  const { url } = await gateway.listen({ port: 0 })
  await using client = await connect('v2 pinned', url)
  const begun = deferred()
  const running = client.callTool('slow', 'Go', { onProgress: () => begun.resolve() })
  await begun.promise
  const waiting = client.callTool('echo', 'Hello')
  await arrived.promise
  await gateway.registry.removeSource(agents)
  finish.resolve()
  expect((await running)['content']).toEqual([{ type: 'text', text: 'finished' }])
  // It had begun nothing yet.
  await expect(waiting).resolves.toMatchObject({
    isError: true,
    _meta: { reason: 'agent_gone' },
  })
})

test('aborts and answers a call that does not end in time', async () => {
  const agents = new AgentsAtHand({ endless })
  const clock = new ManualClock()
  const gateway = createGateway({
    sources: [agents],
    clock,
    http: { shutdownGraceMs: 5000 },
  })
  const fetch = (request: Request): Promise<Response> => gateway.fetch(request)
  const id = await openSession(fetch)
  const response = await fetch(post(toolCall(1, 'endless', 'Go'), inSession(id)))
  const text = response.text()
  while (agents.calls.length === 0) await new Promise(setImmediate)
  const closing = gateway.close()
  await clock.advance(5000)
  await expect(text).resolves.toContain('"isError":true')
  await closing
  expect(agents.calls[0]?.signal.aborted).toBe(true)
  expect(clock.pending).toBe(0)
})

test('keeps the answer of a run that ends while its gateway closes, for a client that is away', async () => {
  const go = deferred()
  await using world = twoReplicas({}, (store) =>
    withLogs(store, {
      append: async (log, event, options) => {
        await settled() // as long as Redis takes
        return store.logs.append(log, event, options)
      },
    }),
  )
  world.agents.join('slow', async function* () {
    yield { type: 'status', text: 'begun' }
    await go.promise
    yield { type: 'text', text: 'The end' }
    yield { type: 'done' }
  })
  const session = await openSession(world.a)
  let last = ''
  for await (const event of eventsOf(
    await world.a(post(toolCall(1, 'slow', 'x'), inSession(session))),
  )) {
    last = event.id ?? last
    if (event.data.includes('begun')) break
  }
  const closing = world.assemblies[0].close()
  go.resolve()
  while (!(await Promise.race([closing.then(() => true), world.clock.advance(100)])));
  const response = await world.b(get(inSession(session, { 'last-event-id': last })))
  expect(await response.text()).toContain('"result"')
})

test('serves one client of either era over a pipe', async () => {
  await using gateway = createGateway({ sources: [new AgentsAtHand({ echo })] })
  const input = new PassThrough()
  const output = new PassThrough()
  const connection = gateway.serveStdio({ input, output })
  const send = (message: object): void => void input.write(`${JSON.stringify(message)}\n`)
  const lines = output[Symbol.asyncIterator]()
  const answer = async (): Promise<unknown> => JSON.parse(String((await lines.next()).value))

  const [first, second] = OPENING
  send(first)
  await expect(answer()).resolves.toMatchObject({
    result: { instructions: 'Agents over MCP', serverInfo: { name: 'Agent Gateway' } },
  })
  send(second)
  send({ jsonrpc: '2.0', id: 1, method: 'tools/list' })
  await expect(answer()).resolves.toMatchObject({ result: { tools: [{ name: 'echo' }] } })
  input.end()
  await connection.closed
})

test('answers requests that came before the end of the pipe, and aborts calls that take longer', async () => {
  const agents = new AgentsAtHand({ echo, endless })
  await using gateway = createGateway({ sources: [agents] })
  const input = new PassThrough()
  const output = new PassThrough()
  const connection = gateway.serveStdio({ input, output })
  const messages = [
    ...OPENING,
    { jsonrpc: '2.0', id: 1, method: 'tools/list' },
    toolCall(2, 'echo', 'hello'),
    toolCall(3, 'endless', 'hello'),
  ]
  input.end(messages.map((message) => `${JSON.stringify(message)}\n`).join(''))
  await connection.closed
  output.end()
  const answers = String(Buffer.concat(await output.toArray()))
  const ids = answers
    .trimEnd()
    .split('\n')
    .map((line): unknown => JSON.parse(line).id)
  expect(ids.filter((id) => id !== undefined)).toEqual([0, 1, 2])
})

test('warns about an invalid message over a pipe in one line', async () => {
  const warnings: string[] = []
  const sources = [new AgentsAtHand({ echo })]
  const stateKey = 'k'.repeat(32)
  await using gateway = createGateway({
    sources,
    stateKey,
    log: false,
    observer: { warned: (message) => void warnings.push(message) },
  })
  const input = new PassThrough()
  const connection = gateway.serveStdio({ input, output: new PassThrough() })
  input.end('{"jsonrpc":"2.0"}\n')
  await connection.closed
  expect(warnings).toEqual(['A message on the pipe is not JSON-RPC'])
})

test('lets the first list over a pipe wait for agents', async () => {
  const agents = new AgentsAtHand()
  const clock = new ManualClock()
  await using gateway = createGateway({ sources: [agents], clock })
  const input = new PassThrough()
  const output = new PassThrough()
  const connection = gateway.serveStdio({ input, output })
  const messages = [...OPENING, { jsonrpc: '2.0', id: 1, method: 'tools/list' }]
  for (const message of messages) input.write(`${JSON.stringify(message)}\n`)
  await clock.advance(1000)
  agents.join('echo', echo)
  await clock.advance(250)
  let text = ''
  for await (const chunk of output) {
    text += String(chunk)
    if (text.includes('"id":1')) break
  }
  expect(text).toContain('"name":"echo"')
  await connection.close()
})

test('refuses auth over a pipe', () => {
  const gateway = createGateway({ auth: bearerAuth('a-token-of-some-length') })
  expect(() => gateway.serveStdio()).toThrow(expect.objectContaining({ code: 'CONFIG' }))
})
