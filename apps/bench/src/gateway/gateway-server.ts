import { setImmediate } from 'node:timers/promises'
import { bearerAuth, createGateway } from '@x/mcp-gateway'
import type {
  AgentCall,
  AgentListener,
  AgentSource,
  AgentUpdate,
  Clock,
  Skill,
} from '@x/mcp-gateway'
import { cpuUs, memory } from '../measure/worker.ts'
import type { GatewayName } from './contender.ts'
import { BRIEF_MS, echoOf, nowUs, PATH, TOKEN } from './protocol.ts'

const IDLE_TTL_MS = 1_800_000
/** More than the load ever needs. */
const MANY = 100_000
/** Time between two agents that join. */
const JOIN_MS = 5

/** The gateway with tokens and metrics, and with limits that the load does not reach. */
export async function startGateway(name: GatewayName) {
  const agent = new BenchAgent(name === 'gateway-200' ? 200 : 10)
  const clock = new AdjustableClock()
  const gateway = createGateway({
    sources: [agent],
    auth: bearerAuth({ bench: { token: TOKEN, scopes: ['*'] } }),
    http: { shutdownGraceMs: 0, path: PATH, metricsPath: '/metrics' },
    sessions: { idleTtlMs: IDLE_TTL_MS, max: MANY, maxPerPrincipal: MANY },
    tools: {
      ...(name === 'gateway-tasks' && { tasks: 'always' }),
      overrides: { 'bench/brief': { timeoutMs: BRIEF_MS }, 'bench/echo 0': { tasks: 'never' } },
    },
    runs: { maxConcurrent: MANY, maxConcurrentPerPrincipal: MANY },
    tasks: { maxPerPrincipal: MANY },
    requestsPerMinute: 10_000 * MANY,
    clock,
  })
  const { port } = await gateway.listen({ port: 0 })
  return {
    port: () => port,
    cpu: cpuUs,
    memory,
    /** Adds a tool, or removes it. Resolves to the time at which the gateway lists the tools anew. */
    changeTools: (isMore: boolean) =>
      new Promise<number>((resolve) => {
        const undo = gateway.registry.on('changed', () => {
          undo()
          resolve(nowUs())
        })
        agent.change(isMore)
      }),
    joinAgents: (count: number) => agent.join(count),
    toolCount: () => gateway.registry.plan().tools.length,
    takeRunTimes: () => agent.takeTimes(),
    activeRuns: () => agent.active,
    /** Number of sessions, from the metrics. */
    async sessions() {
      const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
      return Number(/^mcp_gateway_sessions (\d+)$/m.exec(metrics)?.[1] ?? Number.NaN)
    },
    /** Sets the clock forward, until all sessions have expired. */
    expireSessions: () => clock.forward(IDLE_TTL_MS),
    /** Closes the gateway. Returns the time at which it started to close. */
    async close() {
      const at = nowUs()
      await gateway.close()
      return at
    },
  }
}

export type GatewayApi = Awaited<ReturnType<typeof startGateway>>

/** An agent that costs almost nothing, so that the gateway is measured. */
class BenchAgent implements AgentSource {
  readonly name = 'bench'
  readonly isLocal = true
  /** Runs that have not ended. */
  active = 0
  /** Times at which waiting runs started and were stopped, since they were last taken. */
  #times = { startedAt: [] as number[], stoppedAt: [] as number[] }
  #listener: AgentListener | undefined
  readonly #skills: readonly Skill[]

  constructor(tools: number) {
    const echoes = Array.from({ length: tools }, (_, index) => skillOf(`echo ${index}`))
    this.#skills = [...echoes, ...['later', 'wait', 'brief', 'ask'].map(skillOf)]
  }

  async start(listener: AgentListener): Promise<void> {
    this.#listener = listener
    listener.found(agentWith(this.#skills))
  }

  async *run({ skillId, input, signal }: AgentCall): AsyncGenerator<AgentUpdate> {
    this.active += 1
    try {
      if (skillId === 'wait' || skillId === 'brief') {
        this.#times.startedAt.push(nowUs())
        await new Promise<void>((resolve) => {
          signal.addEventListener('abort', () => resolve(), { once: true })
          if (signal.aborted) resolve()
        })
        this.#times.stoppedAt.push(nowUs())
        throw signal.reason
      }
      if (skillId === 'ask') {
        yield { type: 'asked', questions: [{ id: 'name', message: 'Name?' }], state: {} }
        return
      }
      if (skillId === 'later') await setImmediate()
      yield { type: 'done', text: echoOf(input.kind === 'message' ? input.text : '') }
    } finally {
      this.active -= 1
    }
  }

  change(isMore: boolean): void {
    this.#listener?.found(agentWith(isMore ? [...this.#skills, skillOf('one more')] : this.#skills))
  }

  async join(count: number): Promise<void> {
    for (let index = 0; index < count; index += 1) {
      const name = `joined ${index}`
      const description = 'Another agent.'
      this.#listener?.found({ id: name, name, description, skills: [], health: 'healthy' })
      await new Promise((resolve) => setTimeout(resolve, JOIN_MS))
    }
  }

  takeTimes(): { readonly startedAt: readonly number[]; readonly stoppedAt: readonly number[] } {
    const taken = this.#times
    this.#times = { startedAt: [], stoppedAt: [] }
    return taken
  }

  async close(): Promise<void> {
    this.#listener = undefined
  }
}

function agentWith(skills: readonly Skill[]): Parameters<AgentListener['found']>[0] {
  return { id: 'bench', name: 'bench', description: 'An agent.', skills, health: 'healthy' }
}

function skillOf(name: string): Skill {
  return { id: name, name, description: 'Repeats the message.' }
}

/** The clock of this machine, until it is set forward. Then it fires all timers that are due. */
class AdjustableClock implements Clock {
  #aheadMs = 0
  readonly #timers = new Map<
    NodeJS.Timeout,
    { readonly dueAt: number; readonly call: () => void }
  >()

  now(): number {
    return Date.now() + this.#aheadMs
  }

  after(ms: number, call: () => void): () => void {
    const fire = (): void => {
      this.#timers.delete(timer)
      call()
    }
    const timer = setTimeout(fire, ms)
    timer.unref()
    this.#timers.set(timer, { dueAt: this.now() + ms, call })
    return () => {
      clearTimeout(timer)
      this.#timers.delete(timer)
    }
  }

  forward(ms: number): void {
    this.#aheadMs += ms
    for (const [timer, { dueAt, call }] of this.#timers) {
      if (dueAt > this.now()) continue
      clearTimeout(timer)
      this.#timers.delete(timer)
      call()
    }
  }
}
