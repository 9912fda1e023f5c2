import type { ToolDefinition } from './tool-plan.ts'

/** A tool of the gateway itself. */
export interface MetaTool {
  readonly name: 'agents_list' | 'agent_call'
  readonly definition: ToolDefinition
}
