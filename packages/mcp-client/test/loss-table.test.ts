// Kinds of session loss × kinds of requests × situations of a client, in both eras, on real servers. A lost session is
// replaced, an ambiguous refusal is not sent again, an error that is not a loss affects only its call, and no answer of a
// server leaves a client that fails for ever. The tests of the transport have the verdict for each form that is known.
import { oddAnswers } from '@x/internal/testing'
import {
  lossForms,
  seededRandom,
  startRecordingProxy,
  startReplaceableServer,
  toolFailures,
} from '@x/mcp-testing'
import type {
  CannedAnswer,
  Exchange,
  InjectedAction,
  LossFormName,
  RecordingProxy,
  ReplaceableServer,
} from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { McpClient, McpClientError } from '../src/index.ts'
import type { McpClientErrorCode, McpClientOptions } from '../src/index.ts'
import { DurableFactory } from './session-stores.ts'
import { is, recordEvents, rejectionOf, startSetting } from './setting.ts'

type Era = ReplaceableServer['kind']

interface World extends AsyncDisposable {
  readonly server: ReplaceableServer
  readonly proxy: RecordingProxy
  readonly sessionInfoFactory: DurableFactory
  connect(options?: McpClientOptions): McpClient
}

/** A server that may change its era, and a proxy before it. */
async function startWorld(era: Era): Promise<World> {
  const server = await startReplaceableServer(era)
  const proxy = await startRecordingProxy(server.url)
  const sessionInfoFactory = new DurableFactory()
  // A server that asks for a pause is asked again at once.
  const retryTiming = { wait: async () => {}, random: () => 0 }
  const always = { sessionInfoFactory, retryTiming, reconnect: { firstMs: 1 } }
  return {
    server,
    proxy,
    sessionInfoFactory,
    connect: (options) => new McpClient({ url: proxy.url }, { ...always, ...options }),
    async [Symbol.asyncDispose]() {
      await proxy.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

const situations = ['single', 'parallel', 'resumed'] as const
type Situation = (typeof situations)[number]

/** Number of concurrent calls. */
const atOnce = (situation: Situation): number => (situation === 'parallel' ? 5 : 1)

/** A client with a working session, which is that of an earlier client if it is resumed. */
async function connected(world: World, situation: Situation): Promise<McpClient> {
  const first = world.connect()
  await first.ping()
  if (situation !== 'resumed') return first
  await first.dispose()
  return world.connect()
}

const kinds = {
  tool: (client: McpClient) => client.callTool('echo', { text: 'x' }),
  read: (client: McpClient) => client.readResource('counter://value'),
  list: (client: McpClient) => client.listTools({ forceRefresh: true }),
  ping: (client: McpClient) => client.ping(),
}
const sendAll = (count: number, send: (client: McpClient) => Promise<unknown>, client: McpClient) =>
  Array.from({ length: count }, () => send(client))

const tableOf = <Row>(rows: readonly Row[]) =>
  rows.flatMap((row) => situations.map((situation) => [row, situation] as const))

// A lost session.

interface Loss {
  readonly before: Era
  readonly lose: (server: ReplaceableServer) => void
}

const forgotten = (lossForm: LossFormName): Loss => ({
  before: 'legacy',
  lose: ({ legacy }) => {
    legacy.lossForm = lossForm
    legacy.forgetSessions()
  },
})
const changedTo = (era: Era): Loss => ({
  before: era === 'legacy' ? 'modern' : 'legacy',
  lose: (server) => void (server.kind = era),
})

const losses: Readonly<Record<string, Loss>> = {
  '404-32001': forgotten('404-32001'),
  '404-own-id': forgotten('404-own-id'),
  '404-own-id-only': forgotten('404-own-id-only'),
  '400-no-valid': forgotten('400-no-valid'),
  '401-text': forgotten('401-text'),
  'a server with sessions becomes stateless': changedTo('modern'),
  'a stateless server gets sessions': changedTo('legacy'),
}

describe('a lost session: one handshake, and every request gets one result', () => {
  test.each(tableOf(Object.keys(losses)))('%s, %s', async (name, situation) => {
    const { before, lose } = losses[name] as Loss
    await using world = await startWorld(before)
    const { server, proxy } = world
    await using client = await connected(world, situation)
    const replaced = recordEvents(client)
    const { epoch = 1 } = client.status()
    lose(server)
    const requests = Object.entries(kinds).flatMap(([kind, send]) =>
      server.kind === 'modern' && kind === 'read' ? [] : sendAll(atOnce(situation), send, client),
    )
    expect((await Promise.allSettled(requests)).map(({ status }) => status)).toEqual(
      requests.map(() => 'fulfilled'),
    )
    expect(server.ledger.executions('echo')).toBe(atOnce(situation))
    const opened = replaced.filter(({ event }) => event === 'sessionReplaced')
    expect(opened.map(({ payload }) => payload)).toMatchObject([{ newEpoch: epoch + 1 }])
    expect(client.status()).toMatchObject({ era: server.kind, epoch: epoch + 1 })
    expect(await client.getSessionId()).toBe(
      server.kind === 'legacy' ? server.legacy.sessions[0] : undefined,
    )
    expect(server.legacy.sessions).toHaveLength(1)
    // The handshake carries no session that the server has lost.
    expect(proxy.exchanges.findLast(is.initialize)?.sessionId).toBeUndefined()
  })

  test.each(Object.keys(losses))('%s: with replay "never", only the next call', async (name) => {
    const { before, lose } = losses[name] as Loss
    await using world = await startWorld(before)
    await using client = world.connect({ replay: 'never' })
    await client.ping()
    lose(world.server)
    const refused = { code: 'SESSION_LOST', outcome: 'not-executed' }
    expect(await rejectionOf(kinds.tool(client))).toMatchObject(refused)
    await kinds.tool(client)
    expect(world.server.ledger.executions('echo')).toBe(1)
  })

  test('a stateless server that gets sessions proves nothing with the first refusal in one', async () => {
    await using world = await startWorld('modern')
    const { server, proxy } = world
    await using client = await connected(world, 'single')
    server.kind = 'legacy'
    proxy.inject({
      match: ({ toolName, sessionId }) => toolName === 'echo' && sessionId !== undefined,
      action: afterExecution(lossForms['404-empty']),
    })
    const error = await rejectionOf(kinds.tool(client))
    expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN', outcome: 'unknown' })
    expect(server.ledger.executions('echo')).toBe(1)
  })
})

// A refusal that may mean that.

const afterExecution = (answer: CannedAnswer): InjectedAction => ({
  type: 'answer',
  answer,
  when: 'after-execution',
})

const ambiguous: readonly LossFormName[] = [
  '404-own-id-tool',
  '500-wrapped',
  '200-32001',
  '200-sse-not-json-rpc',
]

describe('an ambiguous refusal sends no tool call again, but safe requests, and replaces the session', () => {
  test.each(tableOf(ambiguous))('%s, %s', async (form, situation) => {
    await using world = await startWorld('legacy')
    const { server, proxy } = world
    const count = atOnce(situation)
    const doubt = { code: 'OUTCOME_UNKNOWN', outcome: 'unknown', cause: { code: 'SESSION_LOST' } }
    const expected = {
      read: { status: 'fulfilled' },
      list: { status: 'fulfilled' },
      ping: { status: 'fulfilled' },
      tool: { status: 'rejected', reason: doubt },
    }
    for (const kind of ['read', 'list', 'ping', 'tool'] as const) {
      await using client = await connected(world, situation)
      server.legacy.lossForm = form
      server.legacy.forgetSessions()
      const mark = proxy.mark()
      const outcomes = await Promise.allSettled(sendAll(count, kinds[kind], client))
      expect(outcomes).toMatchObject(outcomes.map(() => expected[kind]))
      expect(mark.count({ toolName: 'echo' })).toBe(kind === 'tool' ? count : 0)
      await kinds.ping(client)
      expect(mark.count({ rpcMethod: 'initialize' })).toBe(1)
    }
    expect(server.ledger.executions('echo')).toBe(0)
  })
})

describe('a tool that fails after it has run runs once, whatever its text says', () => {
  test.each(tableOf(Object.keys(toolFailures)))('%s, %s', async (name, situation) => {
    await using world = await startWorld('legacy')
    const { server, proxy } = world
    await using client = await connected(world, situation)
    const action = afterExecution(toolFailures[name] as CannedAnswer)
    const repair = proxy.inject({ match: is.tool('echo'), action })
    const calls = sendAll(atOnce(situation), kinds.tool, client).map(rejectionOf)
    for (const error of await Promise.all(calls)) {
      expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN', outcome: 'unknown' })
    }
    expect(server.ledger.executions('echo')).toBe(calls.length)
    repair()
    await kinds.tool(client)
    expect(server.ledger.executions('echo')).toBe(calls.length + 1)
  })

  test.each(Object.keys(toolFailures))('%s, and `server/discover` is refused', async (name) => {
    await using world = await startWorld('modern')
    const { server, proxy } = world
    await using client = await connected(world, 'single')
    const action = afterExecution(toolFailures[name] as CannedAnswer)
    proxy.inject({ match: is.tool('echo'), times: 1, action })
    proxy.inject({ match: is.method('server/discover'), times: 2, action: { status: 404 } })
    const error = await rejectionOf(kinds.tool(client))
    expect(error).not.toMatchObject({ outcome: 'not-executed' })
    expect(server.ledger.executions('echo')).toBe(1)
  })
})

// An error that is not a loss.

/** The error for a caller; `undefined` stands for the `McpError` that the server answered with. */
const others: readonly (readonly [LossFormName, McpClientErrorCode | undefined])[] = [
  ['202', 'UNEXPECTED_RESPONSE'],
  ['400-already-exists', 'REJECTED'],
  ['401-challenge', 'UNAUTHORIZED'],
  ['409', 'REJECTED'],
  ['429', 'REJECTED'],
  ['503', 'REJECTED'],
  ['400-32600', undefined],
]

describe('an error that is not a loss fails the calls that received it, and the session stays', () => {
  test.each(tableOf(others))('%s, %s', async ([form, code], situation) => {
    await using world = await startWorld('legacy')
    const { server, proxy } = world
    await using client = await connected(world, situation)
    const [sessionId] = server.legacy.sessions
    const undo = proxy.inject({ match: is.tool('echo'), action: lossForms[form] })
    const times = form === '429' ? 2 : 1 // the server has not read it
    for (const call of sendAll(atOnce(situation), kinds.tool, client)) {
      const error = await rejectionOf(call)
      expect(McpClientError.is(error) ? error.code : undefined).toBe(code)
    }
    expect(proxy.count({ toolName: 'echo' })).toBe(times * atOnce(situation))
    undo()
    await client.ping()
    expect(await client.getSessionId()).toBe(sessionId)
    expect(server.legacy.count('initialize')).toBe(1)
  })
})

// Any answer, also one that says nothing.

const forms: Readonly<Record<string, CannedAnswer>> = { ...lossForms, ...oddAnswers }
const inSession =
  (id: string | undefined) =>
  ({ sessionId }: Exchange) =>
    sessionId === id
const isModern = ({ protocolVersion }: Exchange): boolean => protocolVersion === '2026-07-28'

/** Calls until one succeeds, at most four times. Each call runs at most once, and never if its error says so. */
async function expectHealed({ server }: World, client: McpClient): Promise<void> {
  const calls: { readonly runs: number; readonly error: unknown }[] = []
  do {
    const before = server.ledger.executions('echo')
    const [call] = await Promise.allSettled([kinds.tool(client)])
    const error: unknown = call.status === 'rejected' ? call.reason : undefined
    calls.push({ runs: server.ledger.executions('echo') - before, error })
  } while (calls.at(-1)?.error !== undefined && calls.length < 4)
  const mayRun = ({ error }: (typeof calls)[number]): boolean =>
    !(McpClientError.is(error) && error.outcome === 'not-executed')
  expect(calls.filter((call) => call.runs > (mayRun(call) ? 1 : 0))).toEqual([])
  expect(calls.at(-1)).toEqual({ runs: 1, error: undefined })
}

const changes: Readonly<Record<string, { before: Era; after: Era }>> = {
  'a session was forgotten': { before: 'legacy', after: 'legacy' },
  'a server lost the stateless revision': { before: 'modern', after: 'legacy' },
  'a server lost the revisions with sessions': { before: 'legacy', after: 'modern' },
}

describe.each(Object.entries(changes))('a client goes on after %s', (_what, { before, after }) => {
  test.each(Object.entries(forms))('%s', async (_name, action) => {
    await using world = await startWorld(before)
    const { server, proxy } = world
    await using client = world.connect()
    await client.ping()
    const id = await client.getSessionId()
    server.kind = after
    const match =
      before === after
        ? inSession(id)
        : (one: Exchange): boolean => isModern(one) === (before === 'modern')
    proxy.inject({ match, action })
    await expectHealed(world, client)
    expect(client.status().era).toBe(after)
    const renewed = await client.getSessionId()
    expect(renewed === undefined || renewed !== id).toBe(true)
  })

  test.each([1, 2])('and after several changes in a row (seed %i)', async (seed) => {
    const random = seededRandom(seed)
    await using world = await startWorld(before)
    const { server, proxy } = world
    await using client = world.connect()
    for (let change = 0; change < 4; change++) {
      await client.ping()
      const all = Object.values(forms)
      const action = all[Math.floor(random() * all.length)] as CannedAnswer
      const id = await client.getSessionId()
      if (id !== undefined && random() < 0.5) proxy.inject({ match: inSession(id), action })
      else server.legacy.forgetSessions()
      await expectHealed(world, client)
    }
  })
})

describe('a session is kept', () => {
  test.each<readonly [string, (one: Exchange) => boolean, CannedAnswer]>([
    ['in which only a tool fails', is.tool('echo'), oddAnswers['200-other-error'] as CannedAnswer],
    ['while the server asks for a pause', is.tool('echo'), { status: 429 }],
    ['while the server refuses new ones too', () => true, lossForms['401-challenge']],
  ])('%s', async (_name, match, action) => {
    await using world = await startWorld('legacy')
    await using client = await connected(world, 'single')
    const undo = world.proxy.inject({ match, action })
    for (let n = 0; n < 7; n++) {
      await rejectionOf(kinds.tool(client))
      if (action.status === 200) await client.ping()
    }
    undo()
    await kinds.tool(client)
    expect(world.server.legacy.count('initialize')).toBe(1)
  })

  test('if a call succeeds between two refusals', async () => {
    await using world = await startWorld('legacy')
    await using client = await connected(world, 'single')
    for (let n = 0; n < 3; n++) {
      const action = { status: 500, body: 'on fire' }
      world.proxy.inject({ match: is.tool('echo'), times: 1, action })
      await rejectionOf(kinds.tool(client))
      await kinds.tool(client)
    }
    expect(world.server.legacy.count('initialize')).toBe(1)
  })
})

test('a session that is given up after two broken answers is terminated, because the server may still have it', async () => {
  await using world = await startWorld('legacy')
  const { proxy, server } = world
  const client = await connected(world, 'single')
  const action = { type: 'change-events', change: 'truncate' } as const
  proxy.inject({ match: is.method('tools/call'), times: 2, action })
  await rejectionOf(kinds.tool(client))
  await rejectionOf(kinds.tool(client))
  await kinds.tool(client)
  expect(server.legacy.count('initialize')).toBe(2)
  await client.dispose({ terminate: true })
  expect(server.legacy.sessions).toEqual([])
})

// Responses to messages without a request id.

describe('responses to other messages', () => {
  test.each([404, 405, 406, 409, 501])(
    'keeps the session when a listening stream is refused with %i',
    async (status) => {
      await using setting = await startSetting()
      const { client, server, proxy } = setting
      const match = ({ httpMethod }: { httpMethod: string }): boolean => httpMethod === 'GET'
      proxy.inject({ match, action: { ...lossForms['404-32001'], status } })
      await client.ping()
      await proxy.waitFor((one) => match(one) && one.end !== undefined)
      await client.callTool('counter_add')
      await client.callTool('counter_add')
      expect(server.count('initialize')).toBe(1)
    },
  )

  test.each<LossFormName>(['404-32001', '400-no-valid', '202'])(
    'fails no call when a notification is answered with %s, and the next call has a session',
    async (form) => {
      await using setting = await startSetting()
      const { client, server, proxy } = setting
      await client.ping()
      const caller = new AbortController()
      const running = client.callTool('slow', {}, { signal: caller.signal })
      await server.waitFor(is.tool('slow'))
      server.forgetSessions()
      const isCancel = is.method('notifications/cancelled')
      proxy.inject({ match: isCancel, action: lossForms[form] })
      caller.abort(new Error('enough'))
      expect(await rejectionOf(running)).toBe(caller.signal.reason)
      await proxy.waitFor((one) => isCancel(one) && one.end !== undefined)
      expect((await client.callTool('counter_add')).structuredContent).toEqual({ count: 1 })
      expect(server.count('initialize')).toBe(2)
    },
  )

  test.each<LossFormName>(['404-32001', '404-empty', '400-no-valid', '400-text'])(
    'removes the record from the store when DELETE is refused with %s, because the session is lost',
    async (form) => {
      await using world = await startWorld('legacy')
      const client = world.connect({ terminateOnClose: true })
      const warnings: unknown[] = []
      client.on('log', ({ level, message }) => level === 'warning' && warnings.push(message))
      await client.ping()
      world.proxy.inject({ match: is.delete, action: lossForms[form] })
      await client.dispose()
      expect(world.proxy.count({ httpMethod: 'DELETE' })).toBe(1)
      const info = world.sessionInfoFactory.createSession()
      expect(await info.getSessionId()).toBeUndefined()
      expect(warnings).toEqual([])
    },
  )
})
