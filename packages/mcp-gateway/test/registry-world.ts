import { registryOptions, type GivenRegistry } from './settings.ts'
import type { PlanChange } from '../src/tools/agent-registry.ts'
import { AgentRegistry } from '../src/tools/agent-registry.ts'
import type {
  Agent,
  AgentCall,
  AgentListener,
  AgentSource,
  AgentUpdate,
} from '../src/agents/agent.ts'
import { ManualClock } from './manual-clock.ts'
import { agentCallOf } from './scripted-source.ts'

export function agentOf(id: string, over: Partial<Agent> = {}): Agent {
  const description = `Does what ${id} does`
  return { id, name: id, description, skills: [], health: 'healthy', ...over }
}

export async function* working(): AsyncGenerator<AgentUpdate> {
  yield { type: 'done', text: 'ok' }
}

/** A source whose agents come and go when a test says so. */
export class FakeSource implements AgentSource {
  readonly name: string
  isLocal = false
  isClosed = false
  listener: AgentListener | undefined
  readonly #first: readonly Agent[]
  readonly #start: () => Promise<void>
  script: (call: AgentCall) => AsyncGenerator<AgentUpdate> = working

  constructor(first: readonly Agent[] = [], start: () => Promise<void> = async () => {}) {
    this.name = 'fake'
    this.#first = first
    this.#start = start
  }

  async start(listener: AgentListener): Promise<void> {
    this.listener = listener
    for (const agent of this.#first) listener.found(agent)
    await this.#start()
  }

  run(call: AgentCall): AsyncGenerator<AgentUpdate> {
    return this.script(call)
  }

  async close(): Promise<void> {
    this.isClosed = true
  }
}

/** A registry, what it warned of, and which changes it told. */
export interface RegistryWorld extends AsyncDisposable {
  readonly clock: ManualClock
  readonly registry: AgentRegistry
  readonly warnings: readonly string[]
  readonly changes: readonly PlanChange[]
  /** Names of tools as they are now. */
  readonly tools: () => readonly string[]
}

export function worldOf(
  sources: readonly FakeSource[],
  options: GivenRegistry = {},
): RegistryWorld {
  const clock = new ManualClock()
  const warnings: string[] = []
  const registry = new AgentRegistry(
    registryOptions({
      sources,
      clock,
      onWarning: (message) => warnings.push(message),
      ...options,
    }),
  )
  const changes: PlanChange[] = []
  registry.on('changed', (change) => changes.push(change))
  return {
    clock,
    registry,
    warnings,
    changes,
    tools: () => registry.plan().tools.map(({ name }) => name),
    [Symbol.asyncDispose]: () => registry.close(),
  }
}

export async function startedWorld(...of: Parameters<typeof worldOf>): Promise<RegistryWorld> {
  const world = worldOf(...of)
  await world.registry.start()
  return world
}

export const never = (): Promise<void> => new Promise(() => undefined)

export function callWith(signal: AbortSignal = new AbortController().signal): AgentCall {
  return agentCallOf({ agentId: 'a', skillId: 'a', signal })
}

/** How a run of agent `a` ended. */
export async function runOf(
  registry: AgentRegistry,
  call: AgentCall = callWith(),
): Promise<string> {
  const source = registry.sourceOf('a')
  if (source === undefined) return 'gone'
  try {
    for await (const update of registry.watchedRun(source, call))
      if (update.type === 'done') return 'done'
    return 'ended'
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
