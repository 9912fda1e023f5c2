import type { Clock } from '../internal/clock.ts'
import type { RegistrySettings } from '../options.ts'
import type { PlanOptions } from './tool-planner.ts'
import type { ToolPlan } from './tool-plan.ts'
import type { Agent } from '../agents/agent.ts'
import type { AgentSource } from '../agents/agent-source.ts'
import type { SourceStatus } from '../agents/registry-sources.ts'

export interface AgentRegistryOptions extends RegistrySettings {
  readonly sources: readonly AgentSource[]
  readonly tools: PlanOptions
  /** Called with warnings. They hold no text of a user and no credential. */
  readonly onWarning: (message: string, cause?: unknown) => void
  readonly clock: Clock
}

/** A source that leaves, one that comes, or one that comes in place of another. */
export interface SourceReplacement {
  readonly gone?: AgentSource | undefined
  readonly come?: AgentSource | undefined
}

/** Options that may change. */
export type RegistryUpdate = Pick<AgentRegistryOptions, 'tools' | 'ttlMs' | 'checkMs'>

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
