/**
 * The scenario `killed-tasks`: an agent makes calls that become tasks, and the processes that the calls need are killed at
 * random: the agent, one or both gateways, two workers and Redis. Each is started again, and the agent continues its thread.
 */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isRecord } from '@x/internal'
import { freePort, startRedisServer } from '@x/internal/testing'
import type { RedisServer } from '@x/internal/testing'
import { redisStore } from '@x/mcp-gateway-redis'
import type { RedisStore } from '@x/mcp-gateway-redis'
import { deferred, startRecordingProxy } from '@x/mcp-testing'
import { effectsIn, NODES } from './payment-graph.ts'
import type { Effect } from './payment-graph.ts'
import { Child, temporaryFolder } from './processes.ts'
import { upToFrom } from './scenario.ts'
import type { ScenarioReport, UpTo } from './scenario.ts'
import type { PaymentCall, TaskProcessSpec, Turn, TurnEnd } from './task-process.ts'

export const KILLED_TASKS = 'killed-tasks'

interface KilledTasksFigures {
  readonly faults: readonly string[]
  /** Processes that were killed. Faults that meet, or come too early, are left out. */
  readonly kills: number
  readonly redisRestarts: number
  /** Longest time in which no gateway ran, in milliseconds. */
  readonly awayMs: number
  readonly calls: number
  /** Time from the first fault to the results of all calls, in milliseconds. */
  readonly resultMs: number
  /** Nodes that ran again. */
  readonly repeatedNodes: number
  /** Turns of an agent that failed, and were begun again. */
  readonly failedTurns: readonly string[]
}

/** Longer than a client waits that repeats a call a few times only, in milliseconds. */
const LONG_AWAY_MS = 12_000
/** Time limit for the results of a seed. Even on a busy machine, only a hang takes so long. */
const DEADLINE_MS = 120_000
/** Time in which the records of the last calls must end. */
const RECORDS_MS = 10_000
const CALLS = 'call:'

/** Runs the scenario with each seed, on the same processes. Yields nothing without a `redis-server`. */
export async function* runKilledTasks(
  seeds: readonly number[],
): AsyncGenerator<ScenarioReport, void, undefined> {
  await using world = new TaskWorld()
  for (const [index, seed] of seeds.entries()) {
    if (!(await world.start())) return
    const begun = performance.now()
    const run = new SeedRun(world, seed)
    let error: string | undefined
    try {
      await run.run()
      if (index === seeds.length - 1) await world.stop()
      assert.deepEqual(world.crashes, [], 'processes ended by themselves')
    } catch (reason) {
      error = reason instanceof Error ? reason.message : String(reason)
    }
    const { figures } = run
    const { awayMs, faults: made, repeatedNodes, resultMs } = figures
    const away = awayMs === 0 ? '' : `no gateway for ${awayMs} ms; `
    if (error !== undefined) await world.kill() // the next seed starts with new processes
    yield {
      name: KILLED_TASKS,
      ok: error === undefined,
      seed,
      ms: Math.round(performance.now() - begun),
      ...(error !== undefined && { error }),
      repeat: `pnpm chaos --scenario ${KILLED_TASKS} --seed ${seed}`,
      summary: `${made.join(', ')}; ${away}${repeatedNodes} nodes ran again; ${resultMs} ms`,
      figures,
    }
  }
}

/**
 * Returns how executions of nodes differ from what checkpoints promise: each node of a call runs once, in its order; and
 * once more each time its process was killed before the checkpoint of its end.
 *
 * @param killed also processes that did not run for so long that they count as dead
 */
export function effectViolations(
  effects: readonly Effect[],
  keys: readonly string[],
  killed: ReadonlySet<number>,
): readonly string[] {
  return keys.flatMap((key) => {
    const own = effects.filter((effect) => effect.key === key)
    const missing = NODES.filter((node) => own.every((effect) => effect.node !== node))
    const wrong = own.filter(({ node }, index) => {
      const before = own[index - 1]
      if (before?.node === node) return !killed.has(before.pid)
      return NODES.indexOf(node) < NODES.indexOf(before?.node ?? '')
    })
    if (missing.length + wrong.length === 0) return []
    const history = own.map(
      ({ node, pid }) => `${node} ${pid}${killed.has(pid) ? ' (killed)' : ''}`,
    )
    return [`${key}: ${history.join(', ') || 'no node ran'}`]
  })
}

/** An agent that continues threads. */
class TaskAgent extends Child {
  readonly #ends = new Map<string, (end: TurnEnd | undefined) => void>()

  constructor(name: string, spec: TaskProcessSpec, crashes: string[]) {
    const onMessage = (end: TurnEnd): void => this.#ends.get(end.thread)?.(end)
    super({ name, entry: ENTRY, spec, crashes, onMessage })
  }

  /** Begins or continues a thread. @returns `undefined` if the process has ended */
  turn(turn: Turn): Promise<TurnEnd | undefined> {
    const { promise, resolve } = deferred<TurnEnd | undefined>()
    this.#ends.set(turn.thread, resolve)
    if (!this.send(turn)) resolve(undefined)
    return promise
  }

  protected override onExit(): void {
    for (const resolve of this.#ends.values()) resolve(undefined)
  }
}

const ENTRY = new URL('task-process.ts', import.meta.url)

interface Processes {
  readonly redis: RedisServer
  readonly store: RedisStore
  readonly agents: readonly [TaskAgent, TaskAgent]
  readonly gateways: readonly Child[]
  readonly workers: readonly Child[]
  /** Workers that the busy machine did not run for a while. */
  readonly late: ReadonlySet<number>
  /** Returns the executions of nodes of all seeds, in their order. */
  effects(): readonly Effect[]
}

/** The processes of the scenario, and their files. */
class TaskWorld implements AsyncDisposable {
  /** Processes that ended without being told to. */
  readonly crashes: string[] = []
  #stack = new AsyncDisposableStack()
  #processes: Processes | undefined

  get processes(): Processes {
    assert.ok(this.#processes, 'The processes do not run')
    return this.#processes
  }

  /** Starts all processes, unless they run. @returns false without a `redis-server` */
  async start(): Promise<boolean> {
    if (this.#processes) return true
    const args = ['--appendonly', 'yes', '--appendfsync', 'always']
    const redis = await startRedisServer({ args })
    if (!redis) return false
    const stack = this.#stack
    stack.use(redis)
    const folder = temporaryFolder(stack)
    writeFileSync(join(folder, 'effects'), '')
    const { crashes } = this
    const common = { folder, redisUrl: redis.url, port: 0, url: '' }
    const late = new Set<number>()
    const serve = (role: 'gateway' | 'worker', port: number): Child => {
      const spec: TaskProcessSpec = { ...common, role, port }
      const onMessage = (): void => void late.add(child.pid ?? 0)
      const child = new Child({ name: `${role} ${port}`, entry: ENTRY, spec, crashes, onMessage })
      return child
    }
    const ports = [await freePort(), await freePort()]
    const gateways = ports.map((port) => serve('gateway', port))
    const workers = [1, 2].map((number) => serve('worker', number))
    let turn = 0
    // As a load balancer with health checks: requests go to gateways that run.
    const target = (): string => {
      const running = ports.filter((_, index) => gateways[index]?.isRunning)
      const open = running.length > 0 ? running : ports
      return `http://127.0.0.1:${open[turn++ % open.length]}/mcp`
    }
    const { url } = stack.use(await startRecordingProxy(target, { keepExchanges: 1000 }))
    const agent = (name: string): TaskAgent =>
      new TaskAgent(name, { ...common, role: 'agent', url }, crashes)
    const agents = [agent('agent 1'), agent('agent 2')] as const
    const children = [...gateways, ...workers, ...agents]
    stack.defer(async () => void (await Promise.all(children.map((child) => child.kill()))))
    await Promise.all(children.map((child) => child.start()))
    const store = stack.use(redisStore({ url: redis.url, prefix: 'chaos', timeoutMs: 10_000 }))
    const effects = (): readonly Effect[] =>
      effectsIn(readFileSync(join(folder, 'effects'), 'utf8'))
    this.#processes = { redis, store, agents, gateways, workers, late, effects }
    return true
  }

  /** Lets all processes end by themselves. */
  async stop(): Promise<void> {
    const { agents, gateways, workers } = this.processes
    const children = [...agents, ...gateways, ...workers]
    await Promise.all(children.map((child) => child.stop()))
    const left = children.filter((child) => child.isRunning).map(({ name }) => name)
    assert.deepEqual(left, [], 'processes did not end')
  }

  async kill(): Promise<void> {
    await this.#stack.disposeAsync()
    this.#stack = new AsyncDisposableStack()
    this.#processes = undefined
    this.crashes.length = 0
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill()
  }
}

/** Faults. Those of a higher weight are chosen more often. */
const faults: readonly [
  weight: number,
  name: string,
  make: (run: SeedRun, upTo: UpTo) => Promise<void> | void,
][] = [
  [4, 'agent killed', (run, upTo) => run.killAgent(upTo)],
  [3, 'gateway killed', (run, upTo) => run.killGateway(upTo)],
  [3, 'all gateways killed', (run, upTo) => run.killGateways(upTo)],
  [3, 'worker killed', (run, upTo) => run.killWorker(upTo)],
  [1, 'Redis stopped', (run, upTo) => run.restartRedis('SIGTERM', upTo)],
  [1, 'Redis killed', (run, upTo) => run.restartRedis('SIGKILL', upTo)],
  [1, 'agent frozen', (run, upTo) => run.freezeAgent(upTo)],
  [1, 'thread continued by two agents', (run) => run.continueTwice()],
]
const weightedFaults = faults.flatMap((fault) => Array<typeof fault>(fault[0]).fill(fault))

/** The calls and faults of one seed. */
class SeedRun {
  readonly #processes: Processes
  readonly #seed: number
  readonly #turn: Turn
  readonly #faults: string[] = []
  readonly #failedTurns: string[] = []
  /** Results that agents wait for. */
  readonly #results: Promise<void>[] = []
  /** Processes that a fault has killed. */
  readonly #killed = new Set<number>()
  /** Processes that a fault holds now. */
  readonly #held = new Set<object>()
  #isOver = false
  #redisRestarts = 0
  /** Since when no gateway runs. */
  #awaySince: number | undefined
  #awayMs = 0
  #firstFaultAt = 0
  #resultMs = 0

  constructor({ processes }: TaskWorld, seed: number) {
    this.#processes = processes
    this.#seed = seed
    const upTo = upToFrom(seed)
    const thread = `seed-${seed}-${Date.now().toString(36)}`
    const calls = Array.from({ length: 1 + upTo(3) }, (_, index): PaymentCall => ({
      tool: upTo(2) === 0 ? 'pay' : 'order',
      args: { key: `${thread}-${index}`, ms: upTo(500), asks: upTo(4) === 0 },
    }))
    this.#turn = { thread, calls }
  }

  get figures(): KilledTasksFigures {
    const { calls } = this.#turn
    const executions = this.#ownEffects().length
    return {
      faults: this.#faults,
      kills: this.#killed.size,
      redisRestarts: this.#redisRestarts,
      awayMs: this.#awayMs,
      calls: calls.length,
      resultMs: this.#resultMs,
      repeatedNodes: Math.max(0, executions - calls.length * NODES.length),
      failedTurns: this.#failedTurns,
    }
  }

  /** @throws AssertionError if the promise is broken */
  async run(): Promise<void> {
    try {
      const late = sleep(DEADLINE_MS, 'late', { ref: false })
      const end = await Promise.race([this.#all(), late])
      assert.notEqual(
        end,
        'late',
        `no results. Failed turns: ${this.#failedTurns.slice(-2).join('; ')}`,
      )
    } finally {
      this.#isOver = true
    }
    const keys = this.#turn.calls.map(({ args }) => args.key)
    const lost = new Set([...this.#killed, ...this.#processes.late])
    assert.deepEqual(effectViolations(this.#ownEffects(), keys, lost), [], 'nodes that ran')
    await this.#assertEnded()
  }

  async #all(): Promise<void> {
    const [agent] = this.#processes.agents
    const done = this.#getResults(agent)
    this.#results.push(done)
    done.catch(() => {})
    const made: Promise<void>[] = []
    const upTo = upToFrom(this.#seed * 10)
    for (let number = 1 + upTo(3); number > 0; number--) {
      await sleep(upTo(900))
      const [, name, make] = weightedFaults[upTo(weightedFaults.length)] ?? assert.fail()
      this.#firstFaultAt ||= performance.now()
      this.#faults.push(name)
      // Faults are made at the same time, so each has random numbers of its own.
      made.push(Promise.resolve(make(this, upToFrom(this.#seed * 10 + number))))
    }
    await Promise.all(made)
    await Promise.all(this.#results)
    this.#resultMs = Math.round(performance.now() - this.#firstFaultAt)
  }

  killAgent(upTo: UpTo): Promise<void> {
    return this.#kill(this.#processes.agents[0], upTo(300))
  }

  /** Kills a gateway, also the only one that runs. */
  killGateway(upTo: UpTo): Promise<void> {
    const { gateways } = this.#processes
    return this.#kill(gateways[upTo(gateways.length)] ?? assert.fail(), upTo(300))
  }

  /** Kills all gateways, half of the time for long. */
  async killGateways(upTo: UpTo): Promise<void> {
    const ms = upTo(2) === 0 ? upTo(300) : LONG_AWAY_MS + upTo(6000)
    await Promise.all(this.#processes.gateways.map((gateway) => this.#kill(gateway, ms)))
  }

  /** Kills a worker: the one that executes a node, if there is one. */
  killWorker(upTo: UpTo): Promise<void> {
    const { workers } = this.#processes
    const pid = this.#ownEffects().at(-1)?.pid
    const busy = workers.find((worker) => worker.pid === pid)
    return this.#kill(busy ?? workers[upTo(workers.length)] ?? assert.fail(), upTo(300))
  }

  async restartRedis(signal: 'SIGTERM' | 'SIGKILL', upTo: UpTo): Promise<void> {
    const { redis } = this.#processes
    await this.#hold(redis, async () => {
      this.#redisRestarts++
      await redis.stop(signal)
      await sleep(upTo(400))
      await redis.start()
    })
  }

  /** Stops an agent for a while. Another one may continue its thread in that time. */
  async freezeAgent(upTo: UpTo): Promise<void> {
    const [agent] = this.#processes.agents
    await this.#hold(agent, async () => {
      const { pid } = agent
      if (pid === undefined) return
      process.kill(pid, 'SIGSTOP')
      if (upTo(2) === 0) this.continueTwice()
      await sleep(upTo(1500))
      process.kill(pid, 'SIGCONT')
    })
  }

  /** Lets a second agent continue the thread, once its calls are made: before that, both would ask the model. */
  continueTwice(): void {
    const [, other] = this.#processes.agents
    if (this.#held.has(other) || this.#ownEffects().length === 0) return
    this.#held.add(other) // to the end of the seed
    const result = this.#getResults(other)
    result.catch(() => {}) // all results are awaited together
    this.#results.push(result)
  }

  /** Kills a process, and starts it again after `ms`. */
  async #kill(child: Child, ms: number): Promise<void> {
    await this.#hold(child, async () => {
      if (child.pid !== undefined) this.#killed.add(child.pid)
      await child.kill()
      const isServed = this.#processes.gateways.some((gateway) => gateway.isRunning)
      if (!isServed) this.#awaySince ??= performance.now()
      await sleep(ms)
      await child.start()
      if (this.#processes.gateways.includes(child)) this.#noteReturn()
    })
  }

  #noteReturn(): void {
    if (this.#awaySince === undefined) return
    const ms = Math.round(performance.now() - this.#awaySince)
    this.#awayMs = Math.max(this.#awayMs, ms)
    this.#awaySince = undefined
  }

  /** Does something to a process that no other fault holds. */
  async #hold(held: object, action: () => Promise<void>): Promise<void> {
    if (this.#held.has(held)) return
    this.#held.add(held)
    await action()
    this.#held.delete(held)
  }

  /** Lets an agent begin or continue the thread until it has all results, and checks them. */
  async #getResults(agent: TaskAgent): Promise<void> {
    while (!this.#isOver) {
      const end = await agent.turn(this.#turn)
      if (end?.results) {
        const expected = this.#turn.calls.map(({ args: { key, asks } }) => [
          key,
          [`${key} paid with ${asks ? 'card' : 'none'}`],
        ])
        assert.deepEqual(end.results, Object.fromEntries(expected), `results of ${agent.name}`)
        return
      }
      if (end?.error !== undefined) this.#failedTurns.push(end.error)
      await sleep(50) // its process starts, or what it needs
    }
  }

  /** Waits until no record of a task says that the task still works. */
  async #assertEnded(): Promise<void> {
    const { store } = this.#processes
    for (const begun = performance.now(); ;) {
      const rows = await store.records.list(CALLS, { limit: 100_000 })
      const open = rows.flatMap(({ value }) => {
        const state = isRecord(value) ? value['state'] : undefined
        const { end, status } = isRecord(state) ? state : {}
        const type = isRecord(end) ? end['type'] : status
        return type === 'result' ? [] : [String(type)]
      })
      if (open.length === 0) return
      if (performance.now() - begun > RECORDS_MS) assert.deepEqual(open, [], 'tasks have not ended')
      await sleep(50)
    }
  }

  #ownEffects(): readonly Effect[] {
    const { thread } = this.#turn
    return this.#processes.effects().filter(({ key }) => key.startsWith(`${thread}-`))
  }
}
