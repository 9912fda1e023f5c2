import { setTimeout as sleep } from 'node:timers/promises'
import { deferred, seededRandom } from '@x/mcp-testing'
import { AgentHandle } from './agent-handle.ts'
import type { CallRecord, RunRecord } from './checks.ts'
import { Processes } from './child.ts'
import type { AgentSpec, Call } from './protocol.ts'
import { startWorld } from './world.ts'
import type { EraChoice, World } from './world.ts'

/** Options of {@link runChaos}. */
export interface ChaosOptions {
  readonly seed: number
  readonly era: EraChoice
  /** Time in which calls are made under faults. */
  readonly seconds: number
  /** Ends the faults after so many calls, also before `seconds` are over. */
  readonly calls?: number
  /** Calls in flight, over all agents. */
  readonly concurrency: number
  /** Program of the agents. @default the clients of this repository */
  readonly agentEntry?: URL
  /** Whether the debug-state service and the gateway take part. @default true */
  readonly services?: boolean
  /** Told about the progress, about once in 10 seconds. */
  readonly log?: (line: string) => void
  /** Ends all processes at once; the run rejects with the reason. */
  readonly signal?: AbortSignal
}

/** The agents: which client they use, and whether the next process resumes their sessions. */
const agentPlan: readonly { readonly kind: string; readonly durable: boolean }[] = [
  { kind: 'client', durable: true },
  { kind: 'tools', durable: false },
  { kind: 'scoped', durable: true },
  { kind: 'sdk', durable: false },
  { kind: 'client', durable: false },
  { kind: 'tools', durable: true },
]
const DEADLINE_MS = 4000
/** Part of the calls that their caller gives up. */
const ABORTED = 0.03
/** After the faults: time for what the clients wait for before they try a server again. */
const CALM_MS = 1500
/** Time that servers get to see that the connections of their clients are closed. */
const SOCKETS_MS = 3000

const principalsOf = (name: string): string[] => [`ada-of-${name}-token`, `bob-of-${name}-token`]

/** One run: calls under faults, a round without, and all that is left at the end. */
export async function runChaos(options: ChaosOptions): Promise<RunRecord> {
  const processes = new Processes()
  const { signal = new AbortController().signal } = options
  const { promise: aborted, reject } = deferred<never>()
  const stop = (): void => reject(signal.reason)
  signal.addEventListener('abort', stop)
  try {
    return await Promise.race([aborted, new ChaosRun(options, processes).run()])
  } finally {
    signal.removeEventListener('abort', stop)
    await processes.killAll()
  }
}

class ChaosRun {
  readonly #options: ChaosOptions
  readonly #processes: Processes
  readonly #random: () => number
  readonly #calls = new Map<string, CallRecord>()
  readonly #kills: { agent: string; at: number }[] = []
  readonly #restarts: { server: string; at: number }[] = []
  readonly #startedAt = performance.now()
  /** Restarts of processes that are under way. */
  readonly #repairs = new Set<Promise<void>>()
  #agents: readonly AgentHandle[] = []

  constructor(options: ChaosOptions, processes: Processes) {
    this.#options = options
    this.#processes = processes
    this.#random = seededRandom(options.seed)
  }

  async run(): Promise<RunRecord> {
    const { seed, era, agentEntry = new URL('agent-process.ts', import.meta.url) } = this.#options
    const names = agentPlan.map((_, n) => `agent-${n + 1}`)
    const now = (): number => performance.now() - this.#startedAt
    const principals = names.flatMap(principalsOf)
    await using world = await startWorld({
      seed,
      era,
      principals,
      processes: this.#processes,
      services: this.#options.services ?? true,
      now,
    })
    const servers = Object.fromEntries(world.servers.map(({ name, proxy }) => [name, proxy.url]))
    const durable = new Set<string>()
    this.#agents = agentPlan.map(({ kind, durable: isDurable }, n) => {
      const name = `agent-${n + 1}`
      const own = principalsOf(name)
      if (isDurable) for (const principal of own) durable.add(principal)
      const spec: AgentSpec = {
        name,
        kind,
        servers,
        principals: own,
        seed: seed + n,
        deadlineMs: DEADLINE_MS,
        ...(isDurable && world.debugStateUrl && { debugStateUrl: world.debugStateUrl }),
      }
      return new AgentHandle(this.#processes, agentEntry, spec)
    })
    await Promise.all(this.#agents.map((agent) => agent.launch()))

    const begun = now()
    world.faults = true
    await this.#underFaults(world)
    const seconds = (now() - begun) / 1000
    world.faults = false
    await Promise.all(this.#repairs)
    await sleep(CALM_MS)
    // The first call of each client may still find what a fault has left behind.
    await this.#round(false)
    await this.#round(true)
    await Promise.all(this.#agents.map((agent) => agent.close()))
    const sockets = await this.#openConnections(world)
    await Promise.all(this.#agents.map((agent) => agent.release()))
    await Promise.all(world.services.map((service) => service.stop()))
    return {
      calls: this.#calls,
      executions: world.executions(),
      exchanges: world.exchanges(),
      sessions: world.servers.flatMap(({ name: server, sessions }) =>
        (sessions?.() ?? []).map((id) => ({ server, id })),
      ),
      durable,
      kills: this.#kills,
      restarts: this.#restarts,
      agents: this.#agents.map(({ spec: { name }, start, end }) => ({ name, start, end })),
      sockets,
      processes: this.#processes.alive,
      crashes: this.#processes.crashes,
      seconds,
    }
  }

  /** Makes calls, and lets faults happen beside them, until time or calls are used up. */
  async #underFaults(world: World): Promise<void> {
    const { seconds, calls = Number.POSITIVE_INFINITY, concurrency, log, signal } = this.#options
    const until = performance.now() + seconds * 1000
    const isOver = (): boolean =>
      performance.now() >= until || this.#calls.size >= calls || signal?.aborted === true
    const over = new AbortController()
    const callers = Array.from({ length: concurrency }, async (_, n) => {
      const random = seededRandom(this.#options.seed * 1000 + n)
      const agent = this.#agents[n % this.#agents.length]
      while (!isOver()) {
        if (agent?.isRunning) await this.#call(agent, this.#randomCall(agent, random))
        else await sleep(20)
      }
    })
    const events = this.#makeEvents(world, over.signal)
    const reports = setInterval(() => {
      log?.(`${this.#calls.size} calls, ${Math.round((until - performance.now()) / 1000)} s left`)
    }, 10_000)
    await Promise.all(callers)
    clearInterval(reports)
    over.abort()
    await events
  }

  #randomCall(agent: AgentHandle, random: () => number): Omit<Call, 'key'> {
    const pick = <Item>(items: readonly Item[]): Item | undefined =>
      items[Math.floor(random() * items.length)]
    const { principals, servers } = agent.spec
    const call = {
      server: pick(Object.keys(servers)) ?? '',
      principal: pick(principals) ?? '',
      tool: 'pay',
      deadlineMs: DEADLINE_MS,
    }
    return random() < ABORTED ? { ...call, abortAfterMs: Math.floor(random() * 60) } : call
  }

  async #call(agent: AgentHandle, call: Omit<Call, 'key'>, mustSucceed = false): Promise<void> {
    const key = `call-${this.#calls.size + 1}`
    const record: CallRecord = {
      call: { ...call, key },
      agent: agent.spec.name,
      kind: agent.spec.kind ?? '',
      startedAt: performance.now() - this.#startedAt,
      settlements: [],
      killed: false,
      mustSucceed,
    }
    this.#calls.set(key, record)
    await agent.call(record)
  }

  /** One call for each agent, server and principal. */
  async #round(mustSucceed: boolean): Promise<void> {
    await Promise.all(
      this.#agents.flatMap((agent) =>
        agent.spec.principals.flatMap((principal) =>
          Object.keys(agent.spec.servers).map((server) => {
            const call = { server, principal, tool: 'pay', deadlineMs: DEADLINE_MS * 2 }
            return this.#call(agent, call, mustSucceed)
          }),
        ),
      ),
    )
  }

  /** Faults that the driver makes itself, one after the other, until the signal aborts. */
  async #makeEvents(world: World, signal: AbortSignal): Promise<void> {
    const random = this.#random
    const upTo = (ms: number): number => Math.floor(random() * ms)
    const events = this.#events(world)
    for (;;) {
      await sleep(100 + upTo(500), undefined, { signal }).catch(() => {})
      if (signal.aborted) return
      const event = events[upTo(events.length)]
      const repair = Promise.resolve(event?.())
        .catch((error: unknown) => void this.#processes.crashes.push(String(error)))
        .finally(() => this.#repairs.delete(repair))
      this.#repairs.add(repair)
    }
  }

  /** Each function makes one fault, and resolves when it is over. */
  #events(world: World): readonly (() => Promise<void> | void)[] {
    const random = this.#random
    const upTo = (ms: number): number => Math.floor(random() * ms)
    const pick = <Item>(items: readonly Item[]): Item | undefined => items[upTo(items.length)]
    const restart = async (): Promise<void> => {
      const server = pick(world.servers.filter((one) => one.restart !== undefined))
      await server?.restart?.()
      if (server) {
        this.#restarts.push({ server: server.name, at: performance.now() - this.#startedAt })
      }
    }
    const forget = (): void =>
      pick(world.servers.filter((one) => one.forget !== undefined))?.forget?.(random)
    const partition = async (): Promise<void> => {
      const proxy = pick(world.proxies)
      const ms = 100 + upTo(1500)
      proxy?.partition()
      await sleep(ms)
      proxy?.heal()
    }
    const killAgent = async (): Promise<void> => {
      const agent = pick(this.#agents.filter((one) => one.isRunning))
      const wait = upTo(500)
      if (!agent) return
      await agent.kill()
      this.#kills.push({ agent: agent.spec.name, at: performance.now() - this.#startedAt })
      await sleep(wait)
      await agent.launch()
    }
    const busy = new Set<object>()
    const killService = async (): Promise<void> => {
      const service = pick(world.services)
      const wait = upTo(1000)
      if (!service || busy.has(service)) return
      busy.add(service)
      await service.kill()
      await sleep(wait)
      await service.start()
      busy.delete(service)
    }
    const jumpClock = (): void => pick(this.#agents)?.jumpClock(upTo(7_200_000) - 3_600_000)
    const dropConnections = (): void => pick(world.servers)?.proxy.dropConnections()
    const pauseRedis = async (): Promise<void> => {
      const ms = 200 + upTo(1500)
      if (!world.pauseRedis || busy.has(world)) return
      busy.add(world)
      await world.pauseRedis(ms)
      busy.delete(world)
    }
    const frequent = [restart, forget, forget, dropConnections, jumpClock]
    const rare = [partition, killAgent, killService, pauseRedis]
    return [...frequent, ...frequent, ...rare]
  }

  /** Connections of agents that are open after all have closed their clients. */
  async #openConnections(world: World): Promise<Record<string, number>> {
    const count = (): Record<string, number> =>
      Object.fromEntries(world.servers.map(({ name, proxy }) => [name, proxy.openConnections]))
    const until = performance.now() + SOCKETS_MS
    while (Object.values(count()).some((open) => open > 0) && performance.now() < until) {
      await sleep(20)
    }
    return count()
  }
}
