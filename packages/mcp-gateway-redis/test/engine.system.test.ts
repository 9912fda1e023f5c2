// Tasks that outlive the processes that execute them: BullMQ on a real Redis, and processes that are killed.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import {
  OpenResources,
  sourceNode,
  startPostgresServer,
  startRedisServer,
} from '@x/internal/testing'
import type { Clock } from '@x/mcp-gateway'
import { systemClock } from '@x/mcp-gateway/adapter'
import { deferred } from '@x/mcp-testing'
import { createClient } from 'redis'
import { afterAll, describe, expect, test, vi } from 'vitest'
import { answered, startRemoteLangGraph } from '../../mcp-gateway/test/remote-langgraph.ts'
import { startA2aAgent, type AgentTurn } from '../../mcp-gateway-a2a/test/a2a-agent.ts'
import { STALLED_MS } from '../src/bullmq-engine.ts'
import { bullmqEngine, redisStore } from '../src/index.ts'
import {
  startEngineGateway,
  type EngineGateway,
  type EngineGatewaySettings,
} from './engine-gateway.ts'

const [redis, postgres] = await Promise.all([
  startRedisServer({ args: ['--notify-keyspace-events', 'K$l'] }),
  startPostgresServer(),
])
afterAll(async () => {
  await redis?.[Symbol.asyncDispose]()
  await postgres?.[Symbol.asyncDispose]()
})

/** Ends what hangs. */
const SLOW = 300_000
/** Time within which another process takes over, as documented. */
const TAKEOVER_MS = 10_000
/** A clock on which the two seconds never pass after which a call becomes a task. */
const PATIENT: Clock = {
  ...systemClock,
  after: (ms, act) => (ms === 2000 ? () => {} : systemClock.after(ms, act)),
}
const TOKEN = 'token-of-the-test-0123456789'
const EXAMPLE = new URL('../../../examples/gateway-cluster/', import.meta.url)
const COMMAND = fileURLToPath(new URL('../../mcp-gateway/src/cli/main.ts', import.meta.url))
const EXTENSION = 'io.modelcontextprotocol/tasks'
const KEY = { 'io.github.x-mcp/idempotency-key': 'call-1' }
let prefixes = 0

type Json = Readonly<Record<string, unknown>>

interface Process extends AsyncDisposable {
  /** What it wrote first. */
  readonly line: string
  readonly url: string
  readonly pid: number | undefined
  kill(signal: NodeJS.Signals): void
  readonly exited: Promise<unknown>
}

interface World extends AsyncDisposable {
  readonly prefix: string
  /** Starts a gateway in this process. It listens, and executes no task. */
  listen(what?: Partial<EngineGatewaySettings>): Promise<EngineGateway>
  /** Starts a process that executes tasks. */
  work(what?: Partial<EngineGatewaySettings>): Promise<Process>
  /** Lets a node wait, or go on. */
  put(name: `wait-${string}` | `go-${string}`): Promise<void>
  /** Executions of nodes, in order: `node message`. */
  nodes(): Promise<readonly string[]>
  /** Processes of these executions. */
  pids(): Promise<readonly number[]>
  /** Starts a command with the file of the example. */
  command(name: string, ...flags: readonly string[]): Promise<Process>
  /** Counts the checks for dead processes from now until a run is queued again. It is the time of the engine itself. */
  takeover(): Promise<{ readonly checks: Promise<number> }>
  /** Starts the processes of the example, as its compose file says. */
  example(): Promise<{ gateways: readonly [Process, Process]; workers: readonly Process[] }>
}

/** @param prefix that of another world, whose processes are on another machine then: only Redis is shared */
async function newWorld(
  prefix = `engine-${process.pid}-${++prefixes}`,
  redisUrl = redis?.url ?? '',
): Promise<World> {
  const folder = await mkdtemp(join(tmpdir(), 'engine-'))
  const common = { redis: redisUrl, prefix, folder }
  const resources = new OpenResources()
  const lines = async (): Promise<readonly string[]> => {
    const content = await readFile(join(folder, 'nodes'), 'utf8').catch(() => '')
    return content.split('\n').filter(Boolean)
  }
  resources.defer(() => rm(folder, { recursive: true, force: true }))
  const command: World['command'] = async (name, ...flags) => {
    const graph = fileURLToPath(new URL('worker-graph.ts', import.meta.url))
    const graphs = join(folder, 'langgraph.json')
    const steps = { path: `${graph}:makeGraph`, description: 'Three steps' }
    await writeFile(graphs, JSON.stringify({ graphs: { steps } }))
    const file = fileURLToPath(new URL('gateway.yaml', EXAMPLE))
    const started = await spawnProcess([COMMAND, name, file, ...flags], {
      FOLDER: folder,
      GRAPHS: graphs,
      HOST: '127.0.0.1',
      PORT: '0',
      PREFIX: prefix,
      LOG_LEVEL: 'error',
      REDIS_URL: redisUrl,
      GATEWAY_STATE_KEY: 'a key that all processes of this test share',
      MCP_TOKEN: TOKEN,
      PUBLIC_URL: 'http://127.0.0.1', // without nginx
    })
    return resources.use({ ...started, url: started.line })
  }
  return {
    prefix,
    listen: async (what) =>
      resources.use(await startEngineGateway({ ...common, listens: true, ...what })),
    work: async (what) => resources.use(await startProcess({ ...common, works: true, ...what })),
    put: (name) => writeFile(join(folder, name), ''),
    nodes: async () => (await lines()).map((line) => line.split(' ').slice(0, -1).join(' ')),
    pids: async () => (await lines()).map((line) => Number(line.split(' ').at(-1))),
    command,
    async takeover() {
      const client = createClient({ url: redisUrl })
      resources.defer(() => client.destroy())
      await client.connect()
      const queued = deferred<number>()
      const events = `__keyspace@0__:{${prefix}}:engine:runs`
      let checks = 0
      await client.subscribe(`${events}:wait`, () => queued.resolve(checks))
      await client.subscribe(`${events}:stalled-check`, () => void (checks += 1))
      return { checks: queued.promise }
    },
    async example() {
      const compose = await readFile(new URL('compose.yaml', EXAMPLE), 'utf8')
      const commands = [
        ...compose.matchAll(/command: \[(serve|work), gateway\.yaml(?:, ([^\]]+))?\]/g),
      ]
      const started = await Promise.all(
        commands.flatMap(([, name = '', flags = '']) => {
          return [1, 2].map(() => command(name, ...flags.split(', ').filter(Boolean)))
        }),
      )
      const [first, second, ...workers] = started
      if (!first || !second) throw new Error('There are not two gateways in the compose file')
      return { gateways: [first, second], workers }
    },
    [Symbol.asyncDispose]: () => resources[Symbol.asyncDispose](),
  }
}

async function startProcess(settings: EngineGatewaySettings): Promise<Process> {
  const program = fileURLToPath(new URL('engine-process.ts', import.meta.url))
  const started = await spawnProcess([program, JSON.stringify(settings)])
  if (!started.line.startsWith('ready')) throw new Error(started.line)
  return { ...started, url: started.line.slice('ready '.length) }
}

/** Starts a process, and waits for its first line. */
async function spawnProcess(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<Omit<Process, 'url'>> {
  const child = spawn(sourceNode, ['--conditions=mcp-source', ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, ...env },
  })
  const exited = once(child, 'exit')
  child.stdin.on('error', () => {}) // the process was killed
  const [line] = (await Promise.race([
    once(createInterface({ input: child.stdout }), 'line'),
    exited.then(() => ['It did not start']),
  ])) as [string]
  return {
    line,
    pid: child.pid,
    exited,
    kill: (signal) => void child.kill(signal),
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await exited
    },
  }
}

/** Sends a request of a client of 2026-07-28 that knows tasks. */
async function send(url: string, method: string, params: Json): Promise<Json> {
  const name = params['name'] ?? params['taskId']
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${TOKEN}`,
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...(typeof name === 'string' && { 'mcp-name': name }),
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method,
      params: {
        ...params,
        _meta: {
          ...(params['_meta'] as Json | undefined),
          'io.modelcontextprotocol/protocolVersion': '2026-07-28',
          'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1.0.0' },
          'io.modelcontextprotocol/clientCapabilities': {
            elicitation: {},
            extensions: { [EXTENSION]: {} },
          },
        },
      },
    }),
  })
  const text = await response.text()
  // Notifications may come before the answer.
  const [, event = '{}'] = [...text.matchAll(/^data: (\{.*)$/gm)].at(-1) ?? []
  const json = text.startsWith('{') ? text : event
  const { result, error } = JSON.parse(json) as { result?: Json; error?: Json }
  if (result === undefined) throw new Error(JSON.stringify(error))
  return result
}

/** Begins a call, and returns its task. */
async function taskOf(
  url: string,
  name: string,
  { message = 'A', meta = {} }: { readonly message?: string; readonly meta?: Json } = {},
): Promise<string> {
  const params = { name, arguments: { message }, _meta: meta }
  const result = await send(url, 'tools/call', params)
  expect(result).toMatchObject({ resultType: 'task', status: 'working' })
  return String(result['taskId'])
}

/** Polls until a task has this status, or has ended. Asks again, as clients do, if a busy Redis was too slow. */
async function until(url: string, taskId: string, status: string): Promise<Json> {
  for (;;) {
    const task = await send(url, 'tasks/get', { taskId }).catch((error: unknown): Json => {
      if (!String(error).includes('"retryAfterMs"')) throw error
      return {}
    })
    const isOver = ['completed', 'failed', 'cancelled'].includes(String(task['status']))
    if (isOver || task['status'] === status) return task
    await sleep(50)
  }
}

/** Calls the agent that asks, and returns its task. */
async function askedTaskOf(url: string): Promise<string> {
  const params = { name: 'asking', arguments: { message: 'A' } }
  const { taskId } = await send(url, 'tools/call', params)
  const id = String(taskId)
  expect(await until(url, id, 'input_required')).toMatchObject({ status: 'input_required' })
  return id
}

/** Answers the question of a task. */
async function answer(url: string, taskId: string): Promise<void> {
  const { inputRequests } = await send(url, 'tasks/get', { taskId })
  const [key = ''] = Object.keys(inputRequests as Json)
  const response = { action: 'accept', content: { answer: 'L' } }
  await send(url, 'tasks/update', { taskId, inputResponses: { [key]: response } })
}

/** Waits until nodes began this often. `expect.poll()` does not know which of several concurrent tests calls it. */
async function untilNodes(world: World, count: number): Promise<void> {
  while ((await world.nodes()).length < count) await sleep(50)
}

const text = (steps: string): Json => ({ content: [{ type: 'text', text: steps }] })

// Most of the time, these tests wait until the lock of a dead process ends.
describe.runIf(redis).concurrent('a task of an engine', () => {
  test('is executed and cancelled in a process that does not listen, and an early result is no task', async () => {
    await using world = await newWorld()
    const web = await world.listen()
    const patient = await world.listen({ clock: PATIENT })
    await world.work()
    const call = { name: 'durable', arguments: { message: 'B' } }
    const all = { resultType: 'complete', ...text('first second third ') }
    expect(await send(patient.url, 'tools/call', call)).toMatchObject(all)
    expect(await world.nodes()).toEqual(['first B', 'second B', 'third B'])
    await world.put('wait-second')
    const taskId = await taskOf(web.url, 'durable')
    await untilNodes(world, 5)
    await send(web.url, 'tasks/cancel', { taskId })
    expect(await until(web.url, taskId, 'cancelled')).toMatchObject({ status: 'cancelled' })
    await world.put('go-second')
    expect(await send(patient.url, 'tools/call', call)).toMatchObject(all)
    expect((await world.nodes()).filter((line) => line === 'third A')).toEqual([])
  })

  test('is continued after its process was killed within a node; without a checkpointer it fails', async () => {
    await using world = await newWorld()
    await world.put('wait-second')
    const web = await world.listen()
    const first = await world.work()
    const taskId = await taskOf(web.url, 'durable', { meta: KEY })
    expect(await taskOf(web.url, 'durable', { meta: KEY })).toBe(taskId) // it joins
    const fragile = await taskOf(web.url, 'fragile', { message: 'B' })
    await untilNodes(world, 4)
    await world.work()
    const takeover = await world.takeover()
    first.kill('SIGKILL')
    await untilNodes(world, 5)
    expect(await takeover.checks).toBeGreaterThan(0)
    expect((await takeover.checks) * STALLED_MS).toBeLessThanOrEqual(TAKEOVER_MS)
    await world.put('go-second')
    const task = await until(web.url, taskId, 'completed')
    expect(task).toMatchObject({ status: 'completed', result: text('first second third ') })
    const again = { name: 'durable', arguments: { message: 'A' }, _meta: KEY }
    expect(await send(web.url, 'tools/call', again)).toMatchObject({ taskId })
    expect(await until(web.url, fragile, 'failed')).toMatchObject({
      status: 'failed',
      error: { message: expect.stringContaining('process that executed this call died') },
    })
    const nodes = await world.nodes()
    const nodesOf = (message: string) => nodes.filter((line) => line.endsWith(message))
    expect(nodesOf('A')).toEqual(['first A', 'second A', 'second A', 'third A'])
    expect(nodesOf('B')).toEqual(['first B', 'second B'])
  })

  test.runIf(postgres)(
    'is continued on another machine, from checkpoints in PostgreSQL',
    async () => {
      const settings = { listens: true, postgres: postgres?.url }
      await using here = await newWorld()
      await using there = await newWorld(here.prefix)
      await here.put('wait-second')
      const first = await here.work(settings)
      const taskId = await taskOf(first.url, 'durable')
      await untilNodes(here, 2)
      first.kill('SIGKILL')
      const second = await there.work(settings)
      const task = await until(second.url, taskId, 'completed')
      expect(task).toMatchObject({ status: 'completed', result: text('first second third ') })
      expect(await here.nodes()).toEqual(['first A', 'second A'])
      expect(await there.nodes()).toEqual(['second A', 'third A'])
    },
  )

  test('survives a crash of Redis, and each node runs once', async () => {
    const args = ['--appendonly', 'yes', '--appendfsync', 'always']
    await using own = await startRedisServer({ args })
    await using world = await newWorld(undefined, own?.url)
    await world.put('wait-second')
    const gateway = await world.work({ listens: true })
    const taskId = await taskOf(gateway.url, 'durable')
    const asked = await askedTaskOf(gateway.url)
    await untilNodes(world, 2)
    await own?.stop()
    await expect(send(gateway.url, 'tasks/get', { taskId })).rejects.toThrow(
      /cannot be reached now/,
    )
    await world.put('go-second')
    await untilNodes(world, 3) // its graph goes on without Redis
    await own?.start()
    const reach = async <T>(request: () => Promise<T>): Promise<T> => {
      try {
        return await request()
      } catch {
        await sleep(50)
        return reach(request)
      }
    }
    const task = await reach(() => until(gateway.url, taskId, 'completed'))
    expect(task).toMatchObject({ status: 'completed', result: text('first second third ') })
    await reach(() => answer(gateway.url, asked))
    expect(await until(gateway.url, asked, 'completed')).toMatchObject({ status: 'completed' })
    const all = ['first A', 'second A', 'third A', 'answered A', 'after A']
    expect(await world.nodes()).toEqual(all)
  })

  test('is handed over at once when its process is stopped', async () => {
    await using world = await newWorld()
    await world.put('wait-second')
    const web = await world.command('serve', '--no-work')
    const first = await world.command('work')
    const taskId = await taskOf(web.url, 'steps')
    await untilNodes(world, 2)
    await world.command('work')
    first.kill('SIGTERM')
    await untilNodes(world, 3)
    await world.put('go-second')
    expect(await until(web.url, taskId, 'completed')).toMatchObject({ result: text('after third') })
    expect(await first.exited).toEqual([0, null])
    expect(await world.nodes()).toEqual(['first A', 'second A', 'second A', 'third A'])
  })

  test('is finished by a process that is stopped, if no other one can continue it', async () => {
    await using world = await newWorld()
    await world.put('wait-second')
    const web = await world.listen()
    const first = await world.work()
    const taskId = await taskOf(web.url, 'fragile')
    await untilNodes(world, 2)
    first.kill('SIGTERM')
    await sleep(1000) // enough to stop a graph
    await world.put('go-second')
    const task = await until(web.url, taskId, 'completed')
    expect(task).toMatchObject({ status: 'completed', result: text('first second third ') })
    expect(await first.exited).toEqual([0, null])
    expect(await world.nodes()).toEqual(['first A', 'second A', 'third A'])
  })

  test('is not changed by a frozen process that wakes up', async () => {
    await using world = await newWorld()
    await world.put('wait-second')
    await world.put('wait-third')
    const web = await world.listen()
    const first = await world.work()
    const taskId = await taskOf(web.url, 'durable')
    await untilNodes(world, 2)
    first.kill('SIGSTOP')
    await world.work()
    await untilNodes(world, 3)
    await world.put('go-second')
    await untilNodes(world, 4)
    first.kill('SIGCONT') // its node ends at once, because the file is there
    for (let count = 5; (await world.pids()).slice(4).every((pid) => pid !== first.pid); count++) {
      await taskOf(web.url, 'durable', { message: 'B' })
      await untilNodes(world, count)
    }
    await world.put('go-third')
    expect(await until(web.url, taskId, 'completed')).toMatchObject({
      status: 'completed',
      result: text('first second third '),
    })
    const nodes = (await world.nodes()).filter((line) => line.endsWith('A'))
    expect(nodes).toEqual(['first A', 'second A', 'second A', 'third A'])
  })

  test('keeps its question and its answer if its processes are killed, in each node after it', async () => {
    await using world = await newWorld()
    await world.put('wait-answered')
    await world.put('wait-after')
    const web = await world.listen()
    const zeroth = await world.work()
    const taskId = await askedTaskOf(web.url)
    zeroth.kill('SIGKILL')
    await zeroth.exited
    const first = await world.work()
    await answer(web.url, taskId)
    await untilNodes(world, 1)
    const second = await world.work()
    first.kill('SIGKILL')
    await untilNodes(world, 2)
    await world.put('go-answered')
    await untilNodes(world, 3)
    await world.work()
    second.kill('SIGKILL')
    await untilNodes(world, 4)
    await world.put('go-after')
    const task = await until(web.url, taskId, 'input_required')
    expect(task).toMatchObject({ status: 'completed' })
    expect(JSON.stringify(task['result'])).toContain('L')
    expect(await world.nodes()).toEqual(['answered A', 'answered A', 'after A', 'after A'])
  })

  test('is executed by `mcp-gateway serve` too', async () => {
    await using world = await newWorld()
    const gateway = await world.command('serve')
    await world.put('wait-second')
    const taskId = await taskOf(gateway.url, 'steps')
    await world.put('go-second')
    const task = await until(gateway.url, taskId, 'completed')
    expect(task).toMatchObject({ result: text('after third') })
    gateway.kill('SIGTERM')
    expect(await gateway.exited).toEqual([0, null])
  })

  test('of the example is continued by the other worker', async () => {
    await using world = await newWorld()
    await world.put('wait-second')
    const { gateways, workers } = await world.example()
    const [first, second] = gateways
    const taskId = await taskOf(first.url, 'steps')
    await untilNodes(world, 2)
    const [pid] = await world.pids()
    const killed = workers.find((worker) => worker.pid === pid)
    const other = workers.find((worker) => worker.pid !== pid)
    killed?.kill('SIGKILL')
    await untilNodes(world, 3)
    await world.put('go-second')
    expect(await until(second.url, taskId, 'completed')).toMatchObject({
      result: text('after third'),
    })
    expect(await until(first.url, taskId, 'completed')).toMatchObject({ status: 'completed' })
    expect(await world.nodes()).toEqual(['first A', 'second A', 'second A', 'third A'])
    expect(await world.pids()).toEqual([killed?.pid, killed?.pid, other?.pid, other?.pid])
    expect(other?.line).toMatch(/^Executes the queued tasks of 1 tool, ready at /)
    other?.kill('SIGTERM')
    expect(await other?.exited).toEqual([0, null])
  })

  test('has a worker that answers probes, also while Redis is away', async () => {
    await using own = await startRedisServer()
    await using world = await newWorld(undefined, own?.url)
    const { line } = await world.command('work')
    const [, url = ''] = / ready at (\S+)\/readyz$/.exec(line) ?? []
    const statusOf = async (path: string): Promise<number> => (await fetch(url + path)).status
    expect(await Promise.all(['/readyz', '/mcp'].map(statusOf))).toEqual([200, 404])
    const metrics = await fetch(`${url}/metrics`)
    expect(await metrics.text()).toMatch(/^mcp_gateway_queued_tasks 0$/m)
    await own?.stop()
    await vi.waitUntil(async () => (await statusOf('/readyz')) === 503, { timeout: SLOW })
    expect(await statusOf('/healthz')).toBe(200)
    await own?.start()
    await vi.waitUntil(async () => (await statusOf('/readyz')) === 200, { timeout: SLOW })
  })

  test('keeps its answer if its process is stopped', async () => {
    await using world = await newWorld()
    await world.put('wait-after')
    const web = await world.listen()
    const first = await world.work()
    const taskId = await askedTaskOf(web.url)
    await answer(web.url, taskId)
    await untilNodes(world, 2)
    await world.work()
    first.kill('SIGTERM')
    await untilNodes(world, 3)
    await world.put('go-after')
    const task = await until(web.url, taskId, 'input_required')
    expect(task).toMatchObject({ status: 'completed' })
    expect(JSON.stringify(task['result'])).toContain('L')
    expect(await world.nodes()).toEqual(['answered A', 'after A', 'after A'])
  })

  test('whose agent is on a LangGraph server is joined after its process was killed or stopped', async () => {
    await using server = await startRemoteLangGraph()
    await using world = await newWorld()
    const langGraph = server.url
    const web = await world.listen({ langGraph })
    const first = await world.work({ langGraph })
    const [taskId, other] = await Promise.all([
      taskOf(web.url, 'support'),
      taskOf(web.url, 'support', { message: 'B' }),
    ])
    await vi.waitUntil(() => server.runs.length === 2, { timeout: SLOW })
    first.kill('SIGKILL')
    // They may have begun in the other order.
    const otherRun = server.runs.find(({ body }) => JSON.stringify(body).includes('"B"'))
    const ownRun = server.runs.find((run) => run !== otherRun)
    const joined = (times: number) => (): boolean =>
      server.lines.filter((line) => line.endsWith(`/runs/${ownRun?.id}/stream`)).length >= times
    await send(web.url, 'tasks/cancel', { taskId: other }) // its process looks alive
    const second = await world.work({ langGraph })
    await vi.waitUntil(() => otherRun?.status === 'interrupted', { timeout: SLOW })
    await vi.waitUntil(joined(1), { timeout: SLOW })
    second.kill('SIGTERM')
    await world.work({ langGraph })
    await vi.waitUntil(joined(2), { timeout: SLOW })
    server.end('success', answered('Done'))
    expect(await until(web.url, taskId, 'completed')).toMatchObject({ result: text('Done') })
    expect(server.runs).toHaveLength(2)
  })

  test('whose A2A agent goes on is joined after its process was killed or stopped', async () => {
    const go = deferred()
    const isCancelled = deferred()
    const script = async (turn: AgentTurn): Promise<void> => {
      turn.begin()
      turn.status(2, 'Looking')
      if (turn.words === 'B') {
        await turn.cancelled
        return isCancelled.resolve()
      }
      await go.promise
      turn.status(3, 'It will rain.')
    }
    await using agent = await startA2aAgent(script)
    await using world = await newWorld()
    await using store = redisStore({ url: redis?.url, prefix: world.prefix })
    /** Waits until these tasks name the tasks of the agent, and have been executed so often. */
    const untilAttempt = (attempt: number, ...taskIds: readonly string[]): Promise<unknown> =>
      vi.waitUntil(
        async () => {
          const calls = (await store.records.list('call:')).map(({ value }) => value as Json)
          const isDone = (id: string): boolean =>
            calls.some(({ attempt: count, runId, state }) => {
              const isNamed = id.startsWith(String(runId).replace('run', 'task'))
              return isNamed && count === attempt && 'remote' in (state as Json)
            })
          return taskIds.every(isDone)
        },
        { timeout: SLOW },
      )
    const a2a = agent.url
    const web = await world.listen({ a2a })
    const first = await world.work({ a2a })
    const [taskId, other] = await Promise.all([
      taskOf(web.url, 'weather_forecast'),
      taskOf(web.url, 'weather_forecast', { message: 'B' }),
    ])
    await untilAttempt(1, taskId, other)
    first.kill('SIGKILL')
    await send(web.url, 'tasks/cancel', { taskId: other }) // its process looks alive
    const second = await world.work({ a2a })
    await untilAttempt(2, taskId)
    await isCancelled.promise
    second.kill('SIGTERM')
    await second.exited
    await world.work({ a2a })
    await untilAttempt(3, taskId)
    go.resolve()
    const task = await until(web.url, taskId, 'input_required')
    expect(task).toMatchObject({ status: 'completed', result: text('It will rain.') })
    expect(agent.methods.filter((method) => method.startsWith('Send'))).toHaveLength(2)
  })
})

test('rejects with UNAVAILABLE without Redis, and with CONFIG for unknown options', async () => {
  await using engine = bullmqEngine({ url: 'redis://127.0.0.1:1' })
  await expect(engine.submit('run')).rejects.toMatchObject({
    code: 'UNAVAILABLE',
    message: expect.stringContaining('ECONNREFUSED'),
  })
  await expect(engine.work(() => Promise.resolve('ended'))).rejects.toMatchObject({
    code: 'UNAVAILABLE',
  })
  expect(() => Reflect.apply(bullmqEngine as never, undefined, [{ uri: 'x' }])).toThrow(
    expect.objectContaining({ code: 'CONFIG', message: expect.stringContaining('"url"') }),
  )
})

test.runIf(redis)('counts the runs that wait for a process', async () => {
  await using engine = bullmqEngine({ url: redis?.url, prefix: 'count' })
  await using away = bullmqEngine({ url: 'redis://127.0.0.1:1' })
  await engine.submit('run-1')
  await engine.submit('run-1')
  expect(await engine.countQueued()).toBe(1)
  const stop = await engine.work(async () => 'ended')
  await expect.poll(() => engine.countQueued()).toBe(0)
  await stop()
  await expect(away.countQueued()).rejects.toMatchObject({ code: 'UNAVAILABLE' })
})
