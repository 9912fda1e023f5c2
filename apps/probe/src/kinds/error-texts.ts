// Texts that callers read while parts of the gateway are broken.
import { rm, writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { MessagesAnnotation, StateGraph } from '@langchain/langgraph'
import {
  askRedis,
  freePort,
  startRedisServer,
  temporaryFolder,
  type RedisServer,
} from '@x/internal/testing'
import {
  DiskGatewayStore,
  jwtAuth,
  langGraphServerSource,
  MemoryGatewayStore,
  type AgentCall,
  type AgentUpdate,
  type Authenticator,
  type GatewayStore,
} from '@x/mcp-gateway'
import { a2aSource } from '@x/mcp-gateway-a2a'
import { oauthFacade } from '@x/mcp-gateway-oauth'
import { redisStore } from '@x/mcp-gateway-redis'
import { startTestServer } from '@x/mcp-testing'
import {
  bearer,
  KEY_NAME,
  KNOWS_TASKS,
  modern,
  post,
  Session,
  SHOWS_FORMS,
  at,
  toAnswer,
  type Answer,
  type Json,
} from '../client.ts'
import { probe, type Kind, type Probe } from '../probe.ts'
import { browserOf, identityAt, toSignIn } from '../sign-in-world.ts'
import { honestClients, knownCallers, startTarget, TOKENS, type Target } from '../target.ts'

/** Attempts to prepare a gateway, and the time between them in milliseconds. */
const MAX_ATTEMPTS = 60
const PAUSE_MS = 1000

const token = TOKENS.ada
const INNER = 'postgres://admin:hunter2@10.0.0.7:5432/secret and /var/lib/gateway/secret.db'

/** Hosts, ports, paths, names of libraries and lines of a stack. */
const LEAK =
  /10\.0\.0|127\.0\.0\.1|localhost|\[::1\]|(?<!"):\d{4,5}\b|hunter2|postgres|redis|sqlite|undici|ECONN|ENO(?:ENT|SPC|TFOUND)|EACCES|EISDIR|ENOTDIR|\/(?:var|tmp|work|home|root|etc)\/|node_modules|node:|\.[cm]?[jt]s\b|\bat \S+ \(|stack|\\n {4}at /i

/** Text of an answer, without the parts that its caller has sent or may see. */
function leakIn(
  { headers, text }: Pick<Answer, 'headers' | 'text'>,
  own: string,
): string | undefined {
  const shown = [...headers].map(([name, value]) => `${name}: ${value}`).join('\n')
  const all = `${shown}\n${text}`
    .replaceAll(own, '')
    .replaceAll(/\d{4}-\d{2}-\d{2}T[\d:.]+Z|date: .*/g, '')
  return LEAK.exec(all)?.[0]
}

/** A request whose answer must show nothing. @param uri a file that the caller has made before */
type Ask = (target: Target, had: Had) => Promise<Answer>

/** Sessions, tasks and files that a caller opened before the gateway broke. */
interface Had {
  readonly uri: string
  readonly session: Session | undefined
  readonly taskId: string
  readonly requestState: unknown
}

const call = (target: Target, name: string, over: Json = {}): Promise<Answer> =>
  modern(target, 'tools/call', { name, arguments: { message: 'x' }, token, ...over })

const inSession = async (had: Had, method: string, params: Json): Promise<Answer> => {
  if (!had.session) throw new Error('There was no session')
  return had.session.ask(method, params)
}

const file = async (target: Target, init: RequestInit, path: string): Promise<Answer> =>
  toAnswer(await fetch(new URL(path, target.url), { ...init, headers: bearer(token) }))

/** Requests of all kinds. */
const REQUESTS: Readonly<Record<string, Ask>> = {
  'a handshake': (target) =>
    post(
      target,
      {
        jsonrpc: '2.0',
        id: 1,
        method: 'initialize',
        params: {
          protocolVersion: '2025-11-25',
          capabilities: {},
          clientInfo: { name: 'x', version: '1' },
        },
      },
      bearer(token),
    ),
  'a call': (target) => call(target, 'echo'),
  'a call in a session': (_target, had) =>
    inSession(had, 'tools/call', { name: 'echo', arguments: { message: 'x' } }),
  'a call with a key': (target) => call(target, 'echo', { _meta: { [KEY_NAME]: 'k' } }),
  'a call that makes a file': (target) => call(target, 'draw'),
  'a call with a file': (target, { uri }) =>
    call(target, 'echo', { arguments: { message: 'x', files: [uri] } }),
  'a call that asks': (target) => call(target, 'ask', { _meta: SHOWS_FORMS }),
  'a call that becomes a task': (target) => call(target, 'deal', { _meta: KNOWS_TASKS }),
  'an answer': (target, { requestState }) =>
    call(target, 'ask', {
      _meta: SHOWS_FORMS,
      requestState,
      inputResponses: { i0: { action: 'accept', content: { answer: 'x' } } },
    }),
  'an answer with a made-up handle': (target) =>
    call(target, 'ask', {
      arguments: { message: 'x', resume: { run: 'run_0123456789abcdef.1.abcd', answers: {} } },
    }),
  'tasks/get': (target, { taskId }) =>
    modern(target, 'tasks/get', { taskId, _meta: KNOWS_TASKS, token }),
  'tasks/cancel': (target, { taskId }) =>
    modern(target, 'tasks/cancel', { taskId, _meta: KNOWS_TASKS, token }),
  'tools/list': (target) => modern(target, 'tools/list', { token }),
  'prompts/list': (target) => modern(target, 'prompts/list', { token }),
  'resources/list': (target) => modern(target, 'resources/list', { token }),
  'resources/read': (target, { uri }) => modern(target, 'resources/read', { uri, token }),
  'resources/read in a session': (_target, had) =>
    inSession(had, 'resources/read', { uri: had.uri }),
  'resources/subscribe': (_target, had) => inSession(had, 'resources/subscribe', { uri: had.uri }),
  'completion/complete': (target) =>
    modern(target, 'completion/complete', {
      ref: { type: 'ref/resource', uri: 'artifact://{scope}/{name}{?version}' },
      argument: { name: 'name', value: '' },
      token,
    }),
  'logging/setLevel': (_target, had) => inSession(had, 'logging/setLevel', { level: 'debug' }),
  'an upload': (target) => file(target, { method: 'PUT', body: 'x' }, '/artifacts/x.txt'),
  'a download': (target, { uri }) => file(target, {}, uri.replace('artifact://', '/artifacts/')),
  'the readiness': (target) => file(target, {}, '/readyz'),
  'a stream with a lost event': async (target, had) => {
    const headers = {
      ...had.session?.headers,
      accept: 'text/event-stream',
      'last-event-id': `${'a'.repeat(32)}.1`,
    }
    return toAnswer(await fetch(target.url, { headers }))
  },
  'the end of the session': async (target, had) =>
    toAnswer(await fetch(target.url, { method: 'DELETE', headers: { ...had.session?.headers } })),
}

/** The store waits for Redis 200 ms only, which a busy machine may exceed: then all is tried again. */
async function before(target: Target): Promise<Had> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await beforeIn(target)
    } catch (error) {
      if (attempt === MAX_ATTEMPTS) throw error
      await sleep(PAUSE_MS)
    }
  }
}

async function beforeIn(target: Target): Promise<Had> {
  const uploaded = await file(target, { method: 'PUT', body: 'x' }, '/artifacts/before.txt')
  const session = await Session.open(target, { token })
  const task = await call(target, 'deal', { _meta: KNOWS_TASKS })
  const asked = await call(target, 'ask', { _meta: SHOWS_FORMS })
  const uri = uploaded.message['uri']
  const taskId = at(task, 'result', 'taskId')
  const requestState = at(asked, 'result', 'requestState')
  for (const [value, { text }] of [
    [uri, uploaded],
    [taskId, task],
    [requestState, asked],
  ] as const) {
    if (typeof value !== 'string') throw new Error(`Not prepared: ${text}`)
  }
  return { uri: String(uri), session, taskId: String(taskId), requestState }
}

/** Sends all requests to a gateway whose store is broken. @param breakIt is called once, before the first one */
async function storeProbes(
  stack: AsyncDisposableStack,
  name: string,
  { store, breakIt }: { readonly store: GatewayStore; readonly breakIt: () => Promise<void> },
): Promise<readonly Probe[]> {
  const target = await startTarget(stack, {
    store,
    auth: knownCallers(),
    stateKey: 'a key of at least thirty-two characters',
    tools: { overrides: { deal: { tasks: 'always' } } },
  })
  target.agents.join('deal', function* () {
    yield { type: 'done', text: 'dealt' }
  })
  const begin = async (): Promise<Had> => {
    const had = await before(target)
    await breakIt()
    return had
  }
  let had: Promise<Had> | undefined
  return Object.entries(REQUESTS).map(([what, ask]) =>
    probe(
      `${name}: ${what}`,
      async () => {
        had ??= begin()
        const answer = await ask(target, await had)
        return {
          leak: leakIn(answer, new URL(target.url).host),
          status: answer.status,
          text: answer.text,
        }
      },
      ({ leak }) => leak === undefined,
    ),
  )
}

async function* brokenStores(
  stack: AsyncDisposableStack,
): AsyncGenerator<[string, Parameters<typeof storeProbes>[2]]> {
  const folder = stack.use(await temporaryFolder())
  const disk = stack.adopt(new DiskGatewayStore(folder.path), (store) => store.close())
  const breakFiles = async (): Promise<void> => {
    await rm(folder.file('blobs'), { recursive: true, force: true })
    await writeFile(folder.file('blobs'), 'no folder')
  }
  yield ['files that cannot be read', { store: disk, breakIt: breakFiles }]
  const other = stack.use(await temporaryFolder())
  const dead = new DiskGatewayStore(other.path)
  yield ['SQLite that was closed', { store: dead, breakIt: () => dead.close() }]
  for (const [name, breakIt] of Object.entries(REDIS)) {
    const redis = await startRedisServer()
    if (!redis) return
    stack.use(redis)
    const store = redisStore({ url: redis.url, timeoutMs: 200, onWarning() {} })
    stack.defer(() => store.close())
    yield [name, { store, breakIt: async () => void (await breakIt(redis)) }]
  }
}

/** Faults of a Redis server. */
const REDIS: Readonly<Record<string, (redis: RedisServer) => unknown>> = {
  'Redis that is away': (redis) => redis.stop(),
  'Redis that does not answer': (redis) => redis.pause(),
  'Redis that is full': (redis) => askRedis(redis.url, 'CONFIG', 'SET', 'maxmemory', '1'),
  'Redis that is read-only': (redis) => askRedis(redis.url, 'REPLICAOF', '127.0.0.1', '9'),
}

/** Agents whose errors name hosts, paths or secrets. */
const FAILURES: Readonly<
  Record<string, (call: AgentCall) => Iterable<AgentUpdate> | AsyncIterable<AgentUpdate>>
> = {
  *'throws an error'() {
    throw new Error(INNER)
  },
  *'throws an error with a cause'() {
    throw new TypeError('It failed', { cause: new Error(INNER) })
  },
  *'throws several errors'() {
    throw new AggregateError([new Error(INNER)], INNER)
  },
  *'throws a text'() {
    // oxlint-disable-next-line typescript/only-throw-error -- agents are code of others
    throw INNER
  },
  *'throws an object'() {
    // oxlint-disable-next-line typescript/only-throw-error -- agents are code of others
    throw { message: INNER, stack: INNER, toString: () => INNER }
  },
  *'throws undefined'() {
    // oxlint-disable-next-line typescript/only-throw-error -- agents are code of others
    throw undefined
  },
  *'throws an error of the system'() {
    throw Object.assign(new Error(INNER), { code: 'ENOENT', path: '/var/lib/x', syscall: 'open' })
  },
  *'throws an abort of its own'() {
    throw new DOMException(INNER, 'AbortError')
  },
  *'throws after a text'() {
    yield { type: 'text', text: 'begun' }
    throw new Error(INNER)
  },
  *'ends without an answer'() {
    yield { type: 'text', text: 'begun' }
  },
  async *'reads a file that does not exist'() {
    const { readFile } = await import('node:fs/promises')
    yield { type: 'text', text: await readFile('/var/lib/gateway/secret.db', 'utf8') }
  },
  async *'calls a server that is away'() {
    yield { type: 'text', text: await (await fetch('http://127.0.0.1:9/secret')).text() }
  },
  *'gives a file that cannot be read'() {
    yield { type: 'file', file: { name: 'a.txt', data: failingBytes() } }
    yield { type: 'done', text: 'done' }
  },
  *'gives a file at a private address'() {
    yield { type: 'file', file: { name: 'a.txt', data: { url: 'http://127.0.0.1:9/secret' } } }
    yield { type: 'done', text: 'done' }
  },
  *'gives a result that is not JSON'() {
    const loop: Record<string, unknown> = {}
    loop['loop'] = loop
    yield { type: 'done', structured: loop }
  },
  *'gives an update that does not exist'() {
    yield { type: 'secret', text: INNER } as never
    yield { type: 'done', text: 'done' }
  },
}

async function* failingBytes(): AsyncGenerator<Uint8Array> {
  yield Buffer.from('x')
  throw new Error(INNER)
}

async function agentProbes(stack: AsyncDisposableStack): Promise<[readonly Probe[], Target]> {
  const target = await startTarget(stack, { auth: knownCallers() })
  const names = Object.keys(FAILURES)
  for (const [n, name] of names.entries())
    target.agents.join(`bad${n}`, (given) => FAILURES[name]?.(given) ?? [])
  const asks: Readonly<Record<string, (tool: string) => Promise<Answer>>> = {
    'a call': (tool) => call(target, tool),
    'a call with progress': (tool) => call(target, tool, { _meta: { progressToken: 1 } }),
    'a call in a session': async (tool) =>
      (await Session.open(target, { token })).ask('tools/call', {
        name: tool,
        arguments: { message: 'x' },
      }),
  }
  const probes = names.flatMap((name, n) =>
    Object.entries(asks).map(([what, ask]) =>
      probe(
        `an agent that ${name}: ${what}`,
        async () => {
          const answer = await ask(`bad${n}`)
          return {
            leak: leakIn(answer, new URL(target.url).host),
            status: answer.status,
            text: answer.text,
          }
        },
        ({ leak, status, text }) =>
          leak === undefined && status === 200 && /"result"|"Internal error in run_/.test(text),
      ),
    ),
  )
  return [probes, target]
}

/** Gateways whose agents, issuers or identity services are somewhere else, and away. */
async function remoteProbes(stack: AsyncDisposableStack): Promise<readonly Probe[]> {
  const away = `http://127.0.0.1:${await freePort()}`
  const broken = stack.use(
    await startTestServer((_request, response) => void response.writeHead(500).end(INNER), ''),
  )
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('fail', () => {
      throw new Error(INNER)
    })
    .addEdge('__start__', 'fail')
    .compile()
  const leaks = (name: string, ask: () => Promise<[Answer, Target]>): Probe =>
    probe(
      name,
      async () => {
        const [answer, target] = await ask()
        return {
          leak: leakIn(answer, new URL(target.url).host),
          status: answer.status,
          text: answer.text,
        }
      },
      ({ leak }) => leak === undefined,
    )
  const target = await startTarget(stack, {
    sources: [
      a2aSource({ cards: [away], trustedOrigins: [away] }),
      a2aSource({ cards: [broken.url], trustedOrigins: [broken.url] }),
      langGraphServerSource({ url: away }),
      langGraphServerSource({ url: broken.url }),
    ],
  })
  const graphs = await startTarget(stack, {
    sources: [],
    agents: { graph: { graph, description: 'Fails' } } as never,
  })
  const guarded = (name: string, auth: Authenticator): Promise<[string, Target]> =>
    startTarget(stack, { auth }).then((each) => [name, each])
  const store = new MemoryGatewayStore()
  const resource = 'https://gateway.example/mcp'
  const signed = await Promise.all([
    guarded(
      'an issuer that is away',
      jwtAuth({ issuers: [{ issuer: away, audience: resource }], resource }),
    ),
    guarded(
      'an issuer that is broken',
      jwtAuth({ issuers: [{ issuer: broken.url, audience: resource }], resource }),
    ),
    guarded('an authenticator that throws', {
      authenticate: () => Promise.reject(new Error(INNER)),
    }),
    guarded('an authenticator that returns nothing', {
      authenticate: () => Promise.resolve(undefined as never),
    }),
  ])
  const identities = await Promise.all(
    [away, broken.url].map((url) =>
      guarded(
        url === away ? 'an identity service that is away' : 'an identity service that is broken',
        oauthFacade({ store, resource, identity: identityAt(url) }),
      ),
    ),
  )
  const jwt = (issuer: string): string =>
    `${btoa('{"alg":"RS256"}')}.${btoa(JSON.stringify({ iss: issuer, aud: resource, sub: 'x', exp: 9_999_999_999 }))}.AAAA`.replaceAll(
      '=',
      '',
    )
  return [
    leaks('agents that are away: tools/list', async () => [
      await modern(target, 'tools/list'),
      target,
    ]),
    leaks('agents that are away: a call', async () => [
      await modern(target, 'tools/call', { name: 'remote', arguments: {} }),
      target,
    ]),
    leaks('agents that are away: the readiness', async () => [
      await file(target, {}, '/readyz'),
      target,
    ]),
    leaks('a graph that throws: a call', async () => [
      await modern(graphs, 'tools/call', { name: 'graph', arguments: { message: 'x' } }),
      graphs,
    ]),
    leaks('a graph that throws: a call in a session', async () => [
      await (
        await Session.open(graphs)
      ).ask('tools/call', { name: 'graph', arguments: { message: 'x' } }),
      graphs,
    ]),
    ...signed.flatMap(([name, each]) =>
      ['x', jwt(away), jwt(broken.url)].map((text, n) =>
        leaks(`${name}: a call (${n})`, async () => [
          await modern(each, 'tools/list', { token: text }),
          each,
        ]),
      ),
    ),
    ...identities.map(([name, each]) =>
      leaks(`${name}: a browser comes back`, async () => {
        const headers = { 'content-type': 'application/json' }
        const redirect = 'http://127.0.0.1:1/callback'
        const registered = await fetch(new URL('/oauth/register', each.url), {
          method: 'POST',
          headers,
          body: JSON.stringify({ redirect_uris: [redirect] }),
        })
        const { client_id: client } = (await registered.json()) as { client_id: string }
        const query = new URLSearchParams({
          response_type: 'code',
          client_id: client,
          redirect_uri: redirect,
          code_challenge: 'A'.repeat(43),
          code_challenge_method: 'S256',
        })
        const page = await toSignIn({ target: each }, `/oauth/authorize?${String(query)}`)
        const state = page.searchParams.get('state') ?? ''
        const back = { redirect: 'manual', headers: browserOf(state) } as const
        return [await file(each, back, `/oauth/callback?code=x&state=${state}`), each]
      }),
    ),
  ]
}

export const errorTexts: Kind = {
  name: 'error-texts',
  rule: 'no text to a caller names a host, a path or a line of code',
  async prepare(stack) {
    const probes: Probe[] = []
    let stores = 0
    for await (const [name, broken] of brokenStores(stack)) {
      stores++
      probes.push(...(await storeProbes(stack, name, broken)))
    }
    const [agents, target] = await agentProbes(stack)
    probes.push(...agents, ...(await remoteProbes(stack)))
    return {
      probes,
      honest: honestClients('a gateway with failing agents', target, { token }),
      ...(stores < 6 && { leftOut: 'broken Redis: redis-server is not installed' }),
    }
  },
}
