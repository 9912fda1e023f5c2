import type { AgentSource } from '../agents/agent-source.ts'
import type { Clock } from '../clock.ts'
import type { Values } from '../store/gateway-store.ts'
import type { ResultFiles } from './result-files.ts'
import type { RunRequest } from './run-request.ts'
import type { RunTool } from './run-tool.ts'
import type { ToolOutcome } from './tool-outcome.ts'

export interface RunsOptions {
  readonly agents: RunnableAgents
  /** Where runs wait for their answers. */
  readonly values: Values
  /** @default the text of results only */
  readonly files?: ResultFiles | undefined
  /** @default systemClock */
  readonly clock?: Clock | undefined
}

/** What runs need of the registry. */
export interface RunnableAgents {
  /** Whatever runs this agent; `undefined`: it left. */
  sourceOf(agentId: string): AgentSource | undefined
  /** Something was wrong with it. */
  degrade(agentId: string, reason: string): void
}

/** All runs of this gateway. */
export class Runs {
  constructor(_options: RunsOptions) {}

  /** Runs the agent behind a tool, or goes on with a run that asked. Never throws for what the agent does. */
  call(_tool: RunTool, _request: RunRequest): Promise<ToolOutcome> {
    throw new Error('not built yet')
  }

  /** Ends all runs, after as long as they may take to end by themselves. */
  close(_graceMs?: number): Promise<void> {
    return Promise.resolve()
  }
}
