import { setTimeout as sleep } from 'node:timers/promises'
import { lossForms, seededRandom } from '@x/mcp-testing'
import { measureDelay } from './agent.ts'
import type { CallRecord, RunRecord } from './checks.ts'
import { Agent, killAll, runningProcesses } from './processes.ts'
import type { Child } from './processes.ts'
import type { Call } from './protocol.ts'
import { World } from './world.ts'
import type { WorldOptions } from './world.ts'

/** Options of {@link runChaos}. */
export interface ChaosOptions extends Pick<WorldOptions, 'seed' | 'era' | 'serversOnly'> {
  /** Time in which calls are made under faults. */
  readonly seconds: number
  /** Calls in flight, over all agents. */
  readonly concurrency: number
  /** Program of the agents. @default the clients of this repository */
  readonly agentEntry?: URL
}

/** Client of each agent, and whether its next process resumes its sessions. */
const agentPlan: readonly { readonly kind: string; readonly isDurable: boolean }[] = [
  { kind: 'client', isDurable: true },
  { kind: 'tools', isDurable: false },
  { kind: 'scoped', isDurable: true },
  { kind: 'sdk', isDurable: false },
  { kind: 'client', isDurable: false },
  { kind: 'tools', isDurable: true },
]
const DEADLINE_MS = 4000
/** Deadline of calls after the faults: only a hang takes so long, also on a busy machine. */
const CALM_DEADLINE_MS = 15_000
/** After the faults, a call may fail while event loops are late by more than this. It is then repeated. */
const BUSY_MS = 500
/** Calls that a client gets at most to succeed after the faults. */
const CALM_CALLS = 4
/** Share of the calls that their caller aborts. */
const ABORTED = 0.03
/** Time after the faults, for clients that wait before they try a server again. */
const CALM_MS = 1500
/** Time that connections get to close, in addition to the delay of the event loop. */
const SOCKETS_MS = 5000

/** Refusals of an unknown session that leave no doubt. */
const lostForms = Object.values(lossForms).filter(({ verdict }) => verdict === 'lost')

/** Makes calls under faults, then without, and records what is left at the end. */
export async function runChaos(options: ChaosOptions): Promise<RunRecord> {
  try {
    return await new ChaosRun(options).run()
  } finally {
    await killAll()
  }
}

/** Makes one fault of the driver. Resolves when the fault is over. */
type MakeFault = (run: ChaosRun) => Promise<void> | void

/** Faults of the driver. Those of a higher weight are chosen more often. */
const driverFaults: readonly (readonly [weight: number, name: string, make: MakeFault])[] = [
  [2, 'server restarted', restart],
  [4, 'sessions forgotten', forgetSessions],
  [2, 'connections dropped', ({ pick, world }) => pick(world.servers)?.proxy.dropConnections()],
  [2, 'clock jumped', ({ pick, upTo, agents }) => pick(agents)?.jumpClock(upTo(7.2e6) - 3.6e6)],
  [1, 'network stalled', partition],
  [1, 'agent killed', (run) => kill(run, run.agents)],
  [1, 'service killed', (run) => kill(run, run.world.services)],
  [1, 'Redis paused', pauseRedis],
]
const weightedFaults = driverFaults.flatMap((fault) => Array<typeof fault>(fault[0]).fill(fault))

async function restart({ pick, world, restarts, now }: ChaosRun): Promise<void> {
  const server = pick(world.servers.filter((one) => one.restart !== undefined))
  if (!server) return
  await server.restart?.()
  restarts.push({ server: server.name, at: now() })
}

function forgetSessions({ pick, world }: ChaosRun): void {
  const legacy = pick(world.servers.flatMap((server) => server.legacy ?? []))
  const lossForm = pick(lostForms)
  if (!legacy || !lossForm) return
  legacy.lossForm = lossForm
  legacy.forgetSessions()
}

async function partition({ pick, upTo, world }: ChaosRun): Promise<void> {
  const proxy = pick(world.proxies)
  proxy?.partition()
  await sleep(100 + upTo(1500))
  proxy?.heal()
}

/** Kills one of these processes, and starts it again. */
async function kill(run: ChaosRun, children: readonly Child[]): Promise<void> {
  const child = run.pick(children)
  const ms = run.upTo(700)
  if (!child || run.away.has(child)) return
  run.away.add(child)
  await child.kill()
  run.kills.push({ name: child.name, at: run.now() })
  await sleep(ms)
  await child.start()
  run.away.delete(child)
}

async function pauseRedis({ upTo, world: { redis }, away }: ChaosRun): Promise<void> {
  const ms = 200 + upTo(1500)
  if (!redis || away.has(redis)) return
  away.add(redis)
  redis.pause()
  await sleep(ms)
  redis.resume()
  away.delete(redis)
}

class ChaosRun {
  agents: readonly Agent[] = []
  readonly world: World
  readonly kills: { name: string; at: number }[] = []
  readonly restarts: { server: string; at: number }[] = []
  /** Processes that a fault has killed or paused for a moment. */
  readonly away = new Set<object>()
  readonly #options: ChaosOptions
  readonly #random: () => number
  readonly #calls = new Map<string, CallRecord>()
  readonly #crashes: string[] = []
  readonly #driverFaults: string[] = []
  /** The servers and proxies share the event loop of the driver. */
  readonly #delayMs = measureDelay()
  readonly #startedAt = performance.now()

  constructor(options: ChaosOptions) {
    this.#options = options
    this.#random = seededRandom(options.seed)
    const principals = agentPlan.flatMap((_, index) => principalsOf(index))
    const crashes = this.#crashes
    this.world = new World({ ...options, principals, crashes, now: this.now })
  }

  /** Milliseconds since the start of the run. */
  readonly now = (): number => performance.now() - this.#startedAt
  /** A whole number from 0 to less than `limit`. */
  readonly upTo = (limit: number): number => Math.floor(this.#random() * limit)
  readonly pick = <Item>(items: readonly Item[]): Item | undefined => items[this.upTo(items.length)]

  async run(): Promise<RunRecord> {
    await using world = this.world
    await world.start()
    this.agents = agentPlan.map(({ kind, isDurable }, index) => this.#agent(kind, index, isDurable))
    await Promise.all(this.agents.map((agent) => agent.start()))

    const begun = performance.now()
    world.faults = true
    await this.#callUnderFaults()
    const seconds = (performance.now() - begun) / 1000
    await sleep(CALM_MS)
    await this.#callEachServer()
    await Promise.all(this.agents.map((agent) => agent.close()))
    const sockets = await this.#openConnections()
    await Promise.all([...this.agents, ...world.services].map((child) => child.stop()))
    return {
      calls: this.#calls,
      executions: world.ledger.entries.filter(({ executed }) => executed),
      exchanges: world.exchanges,
      sessions: world.servers.flatMap(({ name: server, legacy }) =>
        (legacy?.sessions ?? []).map((id) => ({ server, id })),
      ),
      durable: new Set(agentPlan.flatMap((plan, n) => (plan.isDurable ? principalsOf(n) : []))),
      kills: this.kills,
      restarts: this.restarts,
      driverFaults: this.#driverFaults,
      agents: this.agents.map(({ name, initial, final }) => ({ name, start: initial, end: final })),
      sockets,
      processes: runningProcesses(),
      crashes: this.#crashes,
      notes: world.notes,
      seconds,
    }
  }

  #agent(kind: string, index: number, isDurable: boolean): Agent {
    const { seed, agentEntry = new URL('agent-process.ts', import.meta.url) } = this.#options
    const { servers, debugStateUrl } = this.world
    const spec = {
      name: nameOf(index),
      kind,
      servers: Object.fromEntries(servers.map(({ name, proxy }) => [name, proxy.url])),
      principals: principalsOf(index),
      seed: seed + index,
      deadlineMs: DEADLINE_MS,
      ...(isDurable && debugStateUrl && { debugStateUrl }),
    }
    return new Agent(spec, { entry: agentEntry, crashes: this.#crashes })
  }

  /** Makes calls, and lets faults happen at the same time, until the time is over. */
  async #callUnderFaults(): Promise<void> {
    const { seed, seconds, concurrency } = this.#options
    const over = AbortSignal.timeout(Math.round(seconds * 1000))
    const callers = Array.from({ length: concurrency }, async (_, n) => {
      const random = seededRandom(seed * 1000 + n)
      const agent = this.agents[n % this.agents.length]
      while (!over.aborted) {
        if (agent?.isRunning) await this.#call(agent, randomCall(agent, random))
        else await sleep(20)
      }
    })
    const faults: Promise<void>[] = []
    while (!over.aborted) {
      const fault = this.pick(weightedFaults)
      if (fault) {
        const [, name, make] = fault
        this.#driverFaults.push(name)
        const made = Promise.resolve(make(this))
        faults.push(made.catch((error: unknown) => void this.#crashes.push(String(error))))
      }
      await sleep(100 + this.upTo(500), undefined, { signal: over }).catch(() => {})
    }
    await Promise.all(callers)
    this.world.faults = false
    await Promise.all(faults)
  }

  async #call(agent: Agent, call: Omit<Call, 'key'>): Promise<CallRecord> {
    const key = `call-${this.#calls.size + 1}`
    const record: CallRecord = {
      call: { ...call, key },
      agent: agent.name,
      kind: agent.spec.kind ?? '',
      startedAt: this.now(),
      settlements: [],
      killed: false,
      mustSucceed: false,
    }
    this.#calls.set(key, record)
    await agent.call(record)
    return record
  }

  /** Calls each server for each principal of each agent, at the same time. */
  async #callEachServer(): Promise<void> {
    const calls = this.agents.flatMap((agent) =>
      agent.spec.principals.flatMap((principal) =>
        Object.keys(agent.spec.servers).map((server) => {
          const call = { server, principal, tool: 'pay', deadlineMs: CALM_DEADLINE_MS }
          return this.#callUntilGood(agent, call)
        }),
      ),
    )
    await Promise.all(calls)
  }

  /**
   * The first call may still find what a fault has left behind. The second must succeed. The SDK's client
   * gets more calls, because they wait for a handshake that a fault has stalled, and fail with it.
   */
  async #callUntilGood(agent: Agent, call: Omit<Call, 'key'>): Promise<void> {
    await this.#call(agent, call)
    for (let calls = 2; ; calls++) {
      const before = this.#delayMs()
      const record = await this.#call(agent, call)
      const [settled] = record.settlements
      const delay = this.#delayMs() - before + (settled?.lagMs ?? 0)
      const mayFail = delay >= BUSY_MS || agent.spec.kind === 'sdk'
      if (settled?.outcome === 'executed' || calls === CALM_CALLS || !mayFail) {
        record.mustSucceed = true
        return
      }
    }
  }

  /** Connections of agents that are open after all have closed their clients. */
  async #openConnections(): Promise<Record<string, number>> {
    const { servers } = this.world
    const timely = (): number => performance.now() - this.#delayMs()
    const until = timely() + SOCKETS_MS
    while (servers.some(({ proxy }) => proxy.openConnections > 0) && timely() < until) {
      await sleep(20)
    }
    return Object.fromEntries(servers.map(({ name, proxy }) => [name, proxy.openConnections]))
  }
}

const nameOf = (index: number): string => `agent-${index + 1}`
const principalsOf = (index: number): string[] =>
  ['ada', 'bob'].map((user) => `${user}-of-${nameOf(index)}-token`)

function randomCall({ spec }: Agent, random: () => number): Omit<Call, 'key'> {
  const pick = (names: readonly string[]): string =>
    names[Math.floor(random() * names.length)] ?? ''
  const server = pick(Object.keys(spec.servers))
  const principal = pick(spec.principals)
  const call = { server, principal, tool: 'pay', deadlineMs: DEADLINE_MS }
  return random() < ABORTED ? { ...call, abortAfterMs: Math.floor(random() * 60) } : call
}
