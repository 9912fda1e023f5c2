import { setTimeout as sleep } from 'node:timers/promises'
import { lossForms, seededRandom } from '@x/mcp-testing'
import { measureDelay, waitUntil } from './agent.ts'
import type { Call } from './agent.ts'
import { Agent, killAll, runningProcesses } from './processes.ts'
import type { Child } from './processes.ts'
import { RunRecord } from './run-record.ts'
import type { CallRecord } from './run-record.ts'
import { World } from './world.ts'
import type { WorldOptions } from './world.ts'

/** Options of {@link runChaos}. */
export interface ChaosOptions extends WorldOptions {
  /** Time in which calls are made under faults. */
  readonly minutes: number
  /** Calls in flight, over all agents. */
  readonly concurrency: number
  /** Program of the agents. @default the clients of this repository */
  readonly agentEntry?: URL
}

/** Agents of a run. A durable agent keeps its sessions, so that its next process resumes them. */
const agentPlan = [
  { kind: 'client', isDurable: true },
  { kind: 'tools', isDurable: false },
  { kind: 'scoped', isDurable: true },
  { kind: 'sdk', isDurable: false },
  { kind: 'client', isDurable: false },
  { kind: 'tools', isDurable: true },
].map((agent, index) => {
  const name = `agent-${index + 1}`
  return { ...agent, name, principals: ['ada', 'bob'].map((user) => `${user}-of-${name}-token`) }
})
const DEADLINE_MS = 4000
/** Deadline of calls after the faults. Even on a busy machine, only a hang takes so long. */
const CALM_DEADLINE_MS = 15_000
/** After the faults, a call may fail while event loops are late by more than this. It is then repeated. */
const BUSY_MS = 500
/** Limit for the number of calls of one client to one server after the faults. */
const CALM_CALLS = 4
/** Share of the calls that their caller aborts. */
const ABORTED = 0.03
/** Wait after the faults: some clients pause before they try a server again. */
const CALM_MS = 1500
/** Time that connections get to close. */
const SOCKETS_MS = 5000

/** Answers that can only mean that the session is lost. */
const lostForms = Object.values(lossForms).filter(({ verdict }) => verdict === 'lost')

/** Makes calls with faults, then without faults, and records what happened and what is left. */
export async function runChaos(options: ChaosOptions): Promise<RunRecord> {
  try {
    return await new ChaosRun(options).run()
  } finally {
    await killAll()
  }
}

/** Faults of the driver. Those of a higher weight are chosen more often. */
const driverFaults: readonly [
  weight: number,
  name: string,
  make: (run: ChaosRun) => Promise<void> | void,
][] = [
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

async function restart({ pick, world, record }: ChaosRun): Promise<void> {
  const server = pick(world.servers.filter((one) => one.restart !== undefined))
  if (!server) return
  await server.restart?.()
  record.restarts.push({ server: server.name, at: record.now() })
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
  const ms = 100 + run.upTo(600)
  if (!child || run.away.has(child)) return
  run.away.add(child)
  await child.kill()
  await sleep(ms)
  // By now all requests that the process had sent have arrived.
  run.record.kills.push({ name: child.name, at: run.record.now() })
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
  readonly record: RunRecord = new RunRecord()
  readonly world: World
  /** Processes that a fault has killed or paused for a moment. */
  readonly away = new Set<object>()
  readonly #options: ChaosOptions
  readonly #random: () => number
  /** The servers and proxies share the event loop of the driver. */
  readonly #delayMs = measureDelay()

  constructor(options: ChaosOptions) {
    this.#options = options
    this.#random = seededRandom(options.seed)
    this.world = new World(options, this.record)
  }

  /** A whole number from 0 to less than `limit`. */
  readonly upTo = (limit: number): number => Math.floor(this.#random() * limit)
  readonly pick = <Item>(items: readonly Item[]): Item | undefined => items[this.upTo(items.length)]

  async run(): Promise<RunRecord> {
    const { agentEntry = new URL('agent-process.ts', import.meta.url) } = this.#options
    const { record } = this
    await using world = this.world
    await world.start(agentPlan.flatMap(({ principals }) => principals))
    const servers = Object.fromEntries(world.servers.map(({ name, proxy }) => [name, proxy.url]))
    this.agents = agentPlan.map(({ isDurable, ...plan }) => {
      const { debugStateUrl } = world
      const service = isDurable && debugStateUrl !== undefined ? { debugStateUrl } : {}
      return new Agent(
        { ...plan, ...service, servers, deadlineMs: DEADLINE_MS },
        agentEntry,
        record,
      )
    })
    await Promise.all(this.agents.map((agent) => agent.start()))

    const begun = record.now()
    world.faults = true
    await this.#callUnderFaults()
    record.seconds = (record.now() - begun) / 1000
    await sleep(CALM_MS)
    await this.#callEachServer()
    await Promise.all(this.agents.map((agent) => agent.close()))
    record.agents = this.agents.map(({ name, holdings }) => ({ name, holdings }))
    record.sockets = await this.#openConnections()
    await Promise.all([...this.agents, ...world.services].map((child) => child.stop()))
    record.processes = runningProcesses()
    record.executions = world.ledger.entries.filter(({ executed }) => executed)
    record.exchanges = world.exchanges
    record.sessions = world.servers.flatMap(({ name: server, legacy }) =>
      (legacy?.sessions ?? []).map((id) => ({ server, id })),
    )
    record.durable = new Set(
      agentPlan.flatMap(({ isDurable, principals }) => (isDurable ? principals : [])),
    )
    return record
  }

  /** Makes calls and driver faults at the same time, until the time is over. */
  async #callUnderFaults(): Promise<void> {
    const { seed, minutes, concurrency } = this.#options
    const over = AbortSignal.timeout(Math.round(minutes * 60_000))
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
        this.record.driverFaults.push(name)
        const made = Promise.resolve(make(this))
        faults.push(made.catch((error: unknown) => void this.record.crashes.push(String(error))))
      }
      await sleep(100 + this.upTo(500), undefined, { signal: over }).catch(() => {})
    }
    await Promise.all(callers)
    this.world.faults = false
    await Promise.all(faults)
  }

  #call(agent: Agent, call: Omit<Call, 'key'>): Promise<CallRecord> {
    return agent.call({ ...call, key: `call-${this.record.calls.size + 1}` })
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
   * The first call after the faults may fail: the client only then finds out what a fault has broken. The
   * second call must succeed. There are two exceptions, with up to {@link CALM_CALLS} calls:
   * - The machine is so busy that event loops are late.
   * - The SDK's `Client`: a fault may have stalled the handshake that it repeats on our transport. All
   *   calls that wait for this handshake fail with it.
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

  /** Connections of agents that are still open, after these had time to close. */
  async #openConnections(): Promise<Record<string, number>> {
    const { servers } = this.world
    const areClosed = (): boolean => servers.every(({ proxy }) => proxy.openConnections === 0)
    await waitUntil(areClosed, SOCKETS_MS, this.#delayMs)
    return Object.fromEntries(servers.map(({ name, proxy }) => [name, proxy.openConnections]))
  }
}

function randomCall({ spec }: Agent, random: () => number): Omit<Call, 'key'> {
  const pick = (names: readonly string[]): string =>
    names[Math.floor(random() * names.length)] ?? ''
  const server = pick(Object.keys(spec.servers))
  const principal = pick(spec.principals)
  const call = { server, principal, tool: 'pay', deadlineMs: DEADLINE_MS }
  return random() < ABORTED ? { ...call, abortAfterMs: Math.floor(random() * 60) } : call
}
