import type { Clock } from '../internal/clock.ts'
import type { Values } from '../store/gateway-store.ts'
import type { ToolOptions } from './tool-options.ts'
import type { ToolPlan } from './tool-plan.ts'
import type { Agent } from '../agents/agent.ts'
import type { AgentSource } from '../agents/agent-source.ts'
import type { BreakerOptions } from '../agents/breaker.ts'
import type { SourceStatus } from '../agents/registry-sources.ts'

export interface AgentRegistryOptions {
  readonly sources?: readonly AgentSource[] | undefined
  readonly tools?: ToolOptions | undefined
  /** Where the names of tools are kept, so that they stay, and replicas agree. @default in this registry */
  readonly values?: Values | undefined
  /** An agent of another process leaves when its source has not seen it for so many milliseconds. @default 60_000 */
  readonly ttlMs?: number | undefined
  /** How often to look for such agents, in milliseconds. @default 10_000 */
  readonly checkMs?: number | undefined
  /** A change is told after so many milliseconds without another, and at most four times as long after the first. @default 250 */
  readonly debounceMs?: number | undefined
  /** Whether, and how long, first lists wait for agents. @default until graphs of this process are loaded, 10 s at most; 1 s for others */
  readonly waitFor?: WaitFor | undefined
  /** When runs of an agent that keeps failing are refused. */
  readonly breaker?: BreakerOptions | undefined
  /** Told what is odd but stops nothing. No text of a user, no credential is in it. @default nobody */
  readonly onWarning?: ((message: string, cause?: unknown) => void) | undefined
  /** @default systemClock */
  readonly clock?: Clock | undefined
}

/** A source that leaves, one that comes, or one that comes in place of another. */
export interface SourceReplacement {
  readonly gone?: AgentSource | undefined
  readonly come?: AgentSource | undefined
}

/** What of the options may change. */
export type RegistryUpdate = Pick<AgentRegistryOptions, 'tools' | 'ttlMs' | 'checkMs'>

export interface WaitFor {
  /** After that, lists say what is there. @default 10_000 */
  readonly timeoutMs?: number | undefined
  /** @default 1 */
  readonly minAgents?: number | undefined
  /** How often to look meanwhile whether they are there: `debounceMs` does not delay first lists any further. @default 250 */
  readonly pollMs?: number | undefined
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

export interface AgentStatus {
  readonly agent: Agent
  readonly source: string
  /** Milliseconds since 1970. */
  readonly seenAt: number
  /** Why it is degraded. */
  readonly reason?: string | undefined
}
