/**
 * Defects that the packages once had, each as a scenario on real servers. A seed varies details on which
 * the promise does not depend: the form of answers, the number of calls at once, the moment of a fault.
 */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { McpClient } from '@x/mcp-client'
import {
  deferred,
  lossForms,
  seededRandom,
  startLegacyServer,
  startModernServer,
  startRecordingProxy,
  startReplaceableServer,
  startScriptedServer,
  startTestServer,
  toolFailures,
} from '@x/mcp-testing'
import type { CannedAnswer, Exchange } from '@x/mcp-testing'
import { createDispatcher } from '@x/mcp-transport'
import type { Dispatcher } from '@x/mcp-transport'
import {
  clientKinds,
  connect,
  durableStore,
  eventually,
  expectUnknown,
  outcomeOf,
  textOf,
} from './scenario-clients.ts'

export interface Scenario {
  readonly name: string
  readonly promise: string
  /** @throws if the promise is broken */
  readonly run: (seed: number) => Promise<void>
}

export interface ScenarioReport {
  readonly name: string
  readonly ok: boolean
  readonly ms: number
  /** Message of the assertion that failed. */
  readonly error?: string
  /** The command that repeats the scenario. */
  readonly repeat: string
}

/** Even on a busy machine, only a hang takes so long. */
const DEADLINE_MS = 30_000

/** Runs a scenario. A broken promise is a report with an error. */
export async function runScenario({ name, run }: Scenario, seed: number): Promise<ScenarioReport> {
  const begun = performance.now()
  const error = await Promise.race([
    run(seed).then(
      () => undefined,
      (reason: unknown) => (reason instanceof Error ? reason.message : String(reason)),
    ),
    sleep(DEADLINE_MS, `It did not end within ${DEADLINE_MS} ms`, { ref: false }),
  ])
  const ms = Math.round(performance.now() - begun)
  const repeat = `pnpm chaos --scenario ${name} --seed ${seed}`
  return { name, ok: error === undefined, ms, repeat, ...(error !== undefined && { error }) }
}

const answersOf = (seed: number): 'json' | 'sse' => (seed % 2 === 0 ? 'sse' : 'json')
const numberOfCalls = (seed: number): number => 1 + (seed % 4)
const noWait = (): Promise<void> => Promise.resolve()
const isInitialized = (one: Exchange): boolean => one.rpcMethod === 'notifications/initialized'
const isStream = ({ httpMethod, rpcMethod }: Exchange): boolean =>
  httpMethod === 'GET' || rpcMethod === 'subscriptions/listen'
const isCheck = ({ rpcMethod }: Exchange): boolean =>
  rpcMethod === 'ping' || rpcMethod === 'server/discover'
const isOver = (one: Exchange): boolean => one.toolName !== 'slow' || one.end !== undefined
const isLong = ({ body }: Dispatcher.DispatchOptions): boolean =>
  typeof body === 'string' && body.length > 1_000_000
/** Forms whose answers do not say that the session is lost. */
const otherForms = ['401-challenge', '429', '503']
const overloaded: CannedAnswer = { status: 503, headers: { 'retry-after': '1' } }

const all: Scenario[] = []
export const scenarios: readonly Scenario[] = all

function define(name: string, promise: string, run: Scenario['run']): void {
  all.push({ name, promise, run })
}

define(
  'failure-like-lost-session',
  'A tool error that reads like a lost session is reported as unknown, and the tool runs once.',
  async (seed) => {
    const count = numberOfCalls(seed)
    for (const kind of clientKinds) {
      await using server = await startLegacyServer({ answerAs: answersOf(seed) })
      await using client = await connect(kind, server.url)
      for (const [tool, answer] of Object.entries(toolFailures)) {
        await client.callTool('counter_add') // opens a session if the client has dropped the last one
        const before = server.executions('counter_add')
        const repair = server.inject({ answer, times: Infinity })
        await expectUnknown(count, () => client.callTool('counter_add'), `${kind}, ${tool}`)
        repair()
        const executions = server.executions('counter_add') - before
        assert.equal(executions, count, `${kind}, ${tool}: ${count} calls ran ${executions} times`)
      }
    }
  },
)

define(
  'shared-session-id',
  'Two processes that share only a session id use one session, and neither ends it.',
  async (seed) => {
    await using server = await startLegacyServer({ answerAs: answersOf(seed) })
    let id: string | undefined
    const idOnly = {
      getSessionId: () => Promise.resolve(id),
      setSessionId: async (changed: string | undefined) => void (id = changed),
    }
    const random = seededRandom(seed)
    await using one = await connect('ours', server.url, durableStore(idOnly))
    const other = await connect('sdk', server.url, durableStore(idOnly))
    for (let count = 1; count <= 8; count++) {
      if (count === 5) server.forgetSessions()
      const text = await (random() < 0.5 ? one : other).callTool('counter_add')
      assert.equal(text, `counter is ${count < 5 ? count : count - 4}`, 'a second session')
    }
    await other[Symbol.asyncDispose]()
    await one.callTool('counter_add')
    assert.equal(server.sessions.length, 1, 'more than one session is open')
    assert.equal(server.count('DELETE'), 0, 'a session was ended')
  },
)

define(
  'worst-outcome-of-attempts',
  'A call that may have run in one attempt is never reported as not executed.',
  async (seed) => {
    const count = numberOfCalls(seed)
    await using server = await startLegacyServer()
    await using proxy = await startRecordingProxy(server.url)
    let onWait = noWait
    const retryTiming = { wait: () => onWait(), random: () => 0 }
    await using client = new McpClient({ url: proxy.url }, { retryTiming })
    await client.callTool('counter_add')
    // The server refuses the session twice, the second time just after it was opened.
    const repair = server.inject({ answer: lossForms['404-empty'], times: Infinity })
    await expectUnknown(count, () => client.callTool('counter_add'), 'after two refusals')
    // The server executes the calls and answers 503. The proxy refuses the connections of the retries.
    repair()
    await client.callTool('counter_add')
    server.inject({ answer: overloaded, times: Infinity })
    onWait = async () => {
      await eventually(() => server.executions('cart_add') === count, 'not all calls ran')
      await proxy.stop()
    }
    const add = () => client.callTool('cart_add', {}, { idempotent: true })
    await expectUnknown(count, add, 'after a refused connection')
    assert.equal(server.executions('cart_add'), count)
  },
)

define(
  'failing-round',
  'A call with several rounds repeats only the refused round, and asks the user once.',
  async (seed) => {
    await using server = await startModernServer()
    await using proxy = await startRecordingProxy(server.url)
    const asked: string[] = []
    const elicitation = ({ message }: { readonly message?: unknown }) => {
      asked.push(String(message))
      return Promise.resolve({ action: 'accept' as const, content: { value: 'Ada' } })
    }
    const retryTiming = { wait: noWait, random: () => 0 }
    const options = { retryTiming, handlers: { elicitation } }
    await using client = new McpClient({ url: proxy.url }, options)
    const failRound = (number: number, action: CannedAnswer | 'reset-before'): void => {
      let seen = 0
      const match = ({ toolName }: Exchange): boolean =>
        toolName === 'ask_twice' && ++seen === number
      proxy.inject({ match, times: 1, action })
    }
    const round = 2 + (seed % 2)
    failRound(round, { ...overloaded, status: 429 })
    assert.equal((await client.callTool('ask_twice')).isError ?? false, false)
    assert.deepEqual(asked, ['First name?', 'Last name?'], 'the user was asked again')
    assert.equal(server.ledger.entries.length, 3, 'a round ran twice')
    for (const action of [overloaded, { status: 401 }, 'reset-before'] as const) {
      const before: number = server.ledger.entries.length
      failRound(round, action)
      assert.equal(await outcomeOf(client.callTool('ask_twice')), 'unknown')
      assert.equal(server.ledger.entries.length - before, round - 1, 'a round ran twice')
    }
  },
)

define(
  'era-change',
  'Running and new clients go on at once when a server of the other era takes over the URL.',
  async (seed) => {
    const [before, after] =
      seed % 2 === 0 ? (['legacy', 'modern'] as const) : (['modern', 'legacy'] as const)
    for (const client of clientKinds) {
      await using server = await startReplaceableServer(before)
      const store = durableStore()
      await using running = await connect(client, server.url, store)
      await running.callTool('echo', { text: 'first' })
      for (const kind of [after, before, after]) {
        server.kind = kind
        server.legacy.forgetSessions()
        await using next = await connect(client, server.url, store)
        for (const one of [running, next]) {
          const echo = (): Promise<string> => one.callTool('echo', { text: kind })
          assert.deepEqual(await Promise.all([echo(), echo()]), [kind, kind])
        }
      }
      assert.equal(server.ledger.executions('echo'), 13, `${client}: a call ran twice`)
    }
  },
)

define(
  'half-open-session',
  'A session whose `initialized` was lost is neither used nor stored nor left open.',
  async (seed) => {
    for (const kind of clientKinds) {
      await using server = await startLegacyServer({ answerAs: answersOf(seed) })
      await using proxy = await startRecordingProxy(server.url)
      const action = seed % 2 === 0 ? 'reset-before' : overloaded
      proxy.inject({ match: isInitialized, times: 1, action })
      // A strict server refuses calls before `initialized`.
      const open = new Set<string | undefined>()
      proxy.inject({
        match(one) {
          if (isInitialized(one)) open.add(one.sessionId)
          return one.rpcMethod === 'tools/call' && !open.has(one.sessionId)
        },
        action: lossForms['400-32600'],
      })
      const store = durableStore()
      const call = async (): Promise<void> => {
        await using client = await connect(kind, proxy.url, store)
        await client.callTool('counter_add')
      }
      await call().catch(() => {}) // meets the fault
      await call()
      await call()
      assert.deepEqual(server.sessions, [await store.getSessionId()], `${kind}: sessions left`)
    }
  },
)

define(
  'aborted-handshake',
  'A client that is aborted or disposed of in its handshake leaves no session on the server.',
  async (seed) => {
    await using server = await startLegacyServer({ answerAs: answersOf(seed) })
    await using proxy = await startRecordingProxy(server.url)
    for (let turns = 0; turns < 12; turns++) {
      const hangs = turns % 3 === 0 // `initialized` never gets an answer
      const match = (one: Exchange): boolean => hangs && isInitialized(one)
      const undo = proxy.inject({ match, action: 'hang' })
      const client = new McpClient({ url: proxy.url }, { era: 'legacy' })
      const answered = deferred()
      client.on('exchange', () => answered.resolve())
      const abort = new AbortController()
      const call = outcomeOf(client.callTool('counter_add', {}, { signal: abort.signal }))
      await answered.promise
      for (let left = turns + seed; left > 0; left--) await Promise.resolve()
      if (turns % 2 === 0) abort.abort()
      await Promise.allSettled([call, client.dispose()])
      undo()
      assert.deepEqual(server.sessions, [], `after ${turns} turns a session is left`)
    }
  },
)

define(
  'stale-tool-list',
  'After an outage, the listening stream is opened again, and the tool list is fetched anew.',
  async (seed) => {
    for (const start of [startLegacyServer, startModernServer]) {
      await using server = await start()
      await using proxy = await startRecordingProxy(server.url)
      const reconnect = { firstMs: 1, maxMs: 20, maxAttempts: 2 }
      await using client = new McpClient({ url: proxy.url }, { reconnect })
      await client.listTools()
      const standing = await proxy.waitFor((one) => isStream(one) && one.status === 200)
      const action = seed % 2 === 0 ? 'reset-before' : { status: 502 }
      const endOutage = proxy.inject({ match: isStream, action })
      const changed = deferred()
      client.on('toolListChanged', () => changed.resolve())
      if ('dropListeners' in server) {
        await server.waitForListener(({ isOpen }) => isOpen)
        server.dropListeners()
      } else {
        await eventually(() => server.dropListenStreams() > 0, 'no listening stream')
      }
      const refused = (): number =>
        proxy.exchanges.filter((one) => isStream(one) && one.n > standing.n).length
      await eventually(() => refused() > 3, 'the stream was given up')
      endOutage()
      await client.ping()
      await changed.promise
      await client.listTools()
      assert.equal(proxy.count({ rpcMethod: 'tools/list' }), 2, 'the old list was used')
    }
  },
)

define(
  'polled-answer',
  'A call succeeds when the server closes its stream and lets the client poll for the answer.',
  async (seed) => {
    const closed = { events: ['retry: 0\nid: e1\ndata:\n\n'], end: 'eof' as const }
    const content = [{ type: 'text', text: 'late' }]
    let polls = 0
    let calls = 0
    let id: number | string | null = null
    await using server = await startScriptedServer((request) => {
      const { method, id: rpcId = null } = request.message
      if (method === 'initialize') {
        const serverInfo = { name: 'polled', version: '1' }
        const result = { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo }
        return { result, headers: { 'mcp-session-id': `s${seed}` } }
      }
      if (method === 'tools/call') {
        calls++
        id = rpcId
        return closed
      }
      if (method === 'server/discover') return { error: { code: -32601 } }
      if (request.headers['last-event-id'] === undefined) return undefined
      return ++polls % 5 > 0 ? closed : { events: [], result: { content }, id }
    })
    for (const kind of clientKinds) {
      await using client = await connect(kind, server.url)
      assert.equal(await client.callTool('any'), 'late')
    }
    assert.deepEqual({ calls, polls }, { calls: 2, polls: 10 })
  },
)

define(
  'refused-again-and-again',
  'Whatever answer refuses a forgotten session, the third call at the latest succeeds.',
  async (seed) => {
    const bare = [400, 500, 502, 503].map((status) => [`bare ${status}`, { status }] as const)
    const forms = [...Object.entries(lossForms), ...bare]
    const kind = clientKinds[seed % 2] ?? 'ours'
    for (const [name, lossForm] of forms) {
      if (otherForms.includes(name)) continue
      await using server = await startLegacyServer({ lossForm, answerAs: answersOf(seed) })
      await using client = await connect(kind, server.url)
      await client.callTool('counter_add')
      server.forgetSessions()
      const outcomes: string[] = []
      for (let call = 0; call < 3; call++) {
        outcomes.push(await outcomeOf(client.callTool('counter_add')).catch(() => 'error'))
      }
      const executed = outcomes.filter((outcome) => outcome === 'executed').length
      assert.equal(outcomes.at(-1), 'executed', `${kind}, ${name}: ${outcomes.join()}`)
      assert.equal(server.executions('counter_add'), 1 + executed, `${kind}, ${name}: ran twice`)
    }
  },
)

define(
  'silent-server',
  'Calls of a server that goes silent end as unknown, after one check for all calls of a session.',
  async (seed) => {
    const count = numberOfCalls(seed)
    for (const start of [startLegacyServer, startModernServer]) {
      await using server = await start()
      await using proxy = await startRecordingProxy(server.url)
      const timeouts = { silentMs: 60, checkMs: 100 }
      const clients = [1, 2].map(() => new McpClient({ url: proxy.url }, { timeouts }))
      await Promise.all(clients.map((client) => client.listTools()))
      const call = clients[0]?.callTool('slow') // the server answers checks while the tool runs
      const from = proxy.exchanges.length
      await proxy.waitFor((one) => isCheck(one) && one.status === 200, { from })
      server.release('done')
      assert.equal(textOf((await call) ?? {}), 'done', 'a slow call was given up')
      proxy.inject({ match: () => true, action: 'hang' })
      const silent = proxy.exchanges.length
      await Promise.all(
        clients.map((client) => expectUnknown(count, () => client.callTool('slow'), 'silent')),
      )
      const checks = proxy.exchanges.slice(silent).filter(isCheck).length
      // Two requests for each session: a gateway may pass two sessions to two servers. Stateless clients share them.
      const expected = start === startLegacyServer ? 2 * clients.length : 2
      assert.equal(checks, expected, 'a check for each call')
      await eventually(() => proxy.exchanges.every(isOver), 'a call holds its connection')
      const begun = performance.now()
      await Promise.all(clients.map((client) => client.dispose()))
      assert.ok(performance.now() - begun < 4000, 'dispose() waits for a silent server')
    }
  },
)

define(
  'needless-unknown',
  'A call that never reached the server is not reported as unknown.',
  async (seed) => {
    await using server = await startLegacyServer({ answerAs: answersOf(seed) })
    await using cut = await startTestServer(({ socket }) => void socket.resetAndDestroy())
    const { origin } = new URL(cut.url)
    const real = createDispatcher()
    const dispatcher = real.compose(
      (dispatch) => (options, handler) =>
        dispatch(isLong(options) ? { ...options, origin } : options, handler),
    )
    await using client = new McpClient({ url: server.url }, { dispatcher })
    const check = async (args?: Record<string, unknown>): Promise<void> => {
      const before = server.executions('counter_add')
      const outcome = await outcomeOf(client.callTool('counter_add', args))
      const executions = server.executions('counter_add') - before
      assert.notEqual(outcome, 'unknown', `the server ran ${executions} calls`)
      assert.equal(executions, outcome === 'executed' ? 1 : 0, outcome)
    }
    for (let call = 0; call < 5; call++) {
      await check()
      await server.restart()
      await new Promise(setImmediate) // the client sees that its idle connections were closed
      await check()
    }
    await check({ padding: 'x'.repeat(16 * 1024 * 1024) }) // more than a connection buffers
    await check()
    await real.destroy()
  },
)
