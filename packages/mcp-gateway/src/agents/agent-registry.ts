import type { Clock } from '../clock.ts'
import type { RunnableAgents } from '../runs/runs.ts'
import type { Values } from '../store/gateway-store.ts'
import type { ToolOptions } from '../tools/tool-options.ts'
import type { ToolPlan } from '../tools/tool-plan.ts'
import type { Agent } from './agent.ts'
import type { AgentSource } from './agent-source.ts'

export interface AgentRegistryOptions {
  readonly sources?: readonly AgentSource[] | undefined
  readonly tools?: ToolOptions | undefined
  /** Where the names of tools are kept, so that they stay, and replicas agree. @default in this registry */
  readonly values?: Values | undefined
  /** An agent goes that nobody has seen for so long. @default 60_000 */
  readonly ttlMs?: number | undefined
  /** How often to look for such. @default 10_000 */
  readonly checkMs?: number | undefined
  /** A change is told after so long without another, and at most four times as long after the first. @default 250 */
  readonly debounceMs?: number | undefined
  /** Whether, and how long, first lists wait for agents. @default no wait */
  readonly waitFor?: WaitFor | undefined
  /** Told what is odd but stops nothing. No text of a user, no credential is in it. @default nobody */
  readonly onWarning?: ((message: string, cause?: unknown) => void) | undefined
  /** @default systemClock */
  readonly clock?: Clock | undefined
}

export interface WaitFor {
  /** @default 10_000 */
  readonly timeoutMs?: number | undefined
  /** @default 1 */
  readonly minAgents?: number | undefined
}

/** What a new plan brought. Health alone is never told. */
export interface PlanChange {
  readonly plan: ToolPlan
  /** `tools/list` says something else now. */
  readonly tools: boolean
  /** `prompts/list` says something else now. */
  readonly prompts: boolean
}

export interface RegistryStatus {
  readonly sources: readonly SourceStatus[]
  readonly agents: readonly AgentStatus[]
}

export interface SourceStatus {
  readonly name: string
  readonly state: 'starting' | 'started' | 'failed' | 'closed'
  /** Why it failed, or what of it was refused last. */
  readonly reason?: string | undefined
}

export interface AgentStatus {
  readonly agent: Agent
  readonly source: string
  /** Milliseconds since 1970. */
  readonly seenAt: number
  /** Why it is degraded. */
  readonly reason?: string | undefined
}

/** Every agent of every source: the one place that decides what is there. */
export declare class AgentRegistry implements RunnableAgents {
  constructor(options?: AgentRegistryOptions)
  /** Starts all sources; resolves after the first look of each. A source that fails stops no other. Never rejects. */
  start(): Promise<void>
  /** One more source, at run time. */
  addSource(source: AgentSource): Promise<void>
  /** Its agents leave, and it is closed. */
  removeSource(source: AgentSource): Promise<void>
  /** Sorted by id. */
  agents(): readonly Agent[]
  agent(id: string): Agent | undefined
  plan(): ToolPlan
  /** Whoever was an agent lately, and what its tools were called: for calls that come too late. */
  ownerOf(toolName: string): string | undefined
  /** Resolves when there is a plan worth listing, or after the time for it. Never rejects. */
  whenListable(): Promise<void>
  readonly isListable: boolean
  /** Runs an agent, and keeps count of its failures; `undefined`: it left. */
  sourceOf(agentId: string): AgentSource | undefined
  degrade(agentId: string, reason: string): void
  /** Returns its own undo. */
  on(event: 'changed', listener: (change: PlanChange) => void): () => void
  status(): RegistryStatus
  close(): Promise<void>
}
