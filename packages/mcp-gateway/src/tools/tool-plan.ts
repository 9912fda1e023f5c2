import type { Agent, JsonSchema, Skill, SkillAnnotations } from '../agents/agent.ts'
import type { RunTool } from '../agents/run-tool.ts'
import type { ArgumentCheck } from './argument-check.ts'
import type { CachePolicy } from './cache-policy.ts'
import type { MetaTool } from './meta-tools.ts'
import type { NameCollision } from './names.ts'
import type { PlannedPrompt } from './skill-prompts.ts'
import type { ListedTool, ToolDefinition } from './tool-definition.ts'

/**
 * All that the gateway offers at one moment. Never changes: a change of agents makes another plan. What a
 * caller gets to see of it is up to `listTools` and `listPrompts`.
 */
export interface ToolPlan {
  /** Sorted by name. */
  readonly tools: readonly PlannedTool[]
  /** As `tools/list` says it to somebody who may see all, sorted by name: tools, or meta-tools, or both; and own ones. */
  readonly listed: readonly (PlannedTool | ListedTool)[]
  byName(name: string): PlannedTool | undefined
  /** Of a skill of an agent, by their ids. */
  bySkill(agentId: string, skillId: string): PlannedTool | undefined
  /** Tools of the gateway itself; none unless they were asked for. */
  readonly metaTools: readonly MetaTool[]
  /** Sorted by name. */
  readonly prompts: readonly PlannedPrompt[]
  promptByName(name: string): PlannedPrompt | undefined
  /** Which agents there are, also those without a tool. Sorted by id. */
  readonly agents: readonly Agent[]
  /** 16 hex digits: equal where clients see the same, in every process. Health is left out of it: it is a hint. */
  readonly version: string
  readonly toolsVersion: string
  readonly promptsVersion: string
  /** Skills whose names others want too. */
  readonly collisions: readonly NameCollision[]
  /** Skills that became no tool, and why. */
  readonly dropped: readonly DroppedTool[]
  /** What is odd about the configuration as it meets these agents: an override that fits no skill. */
  readonly warnings: readonly string[]
}

/** One skill of one agent, as a tool. */
export interface PlannedTool extends RunTool {
  readonly name: string
  /** `<agent name>: <skill name>`, as written there. */
  readonly title: string
  readonly description: string
  readonly inputSchema: JsonSchema
  readonly outputSchema?: JsonSchema | undefined
  readonly annotations?: SkillAnnotations | undefined
  readonly agent: Agent
  readonly skill: Skill
  /** What it takes: the words of the caller, or arguments by the schema of the skill. */
  readonly parameters: 'message' | 'schema'
  /** All of which a caller needs, to see it and to call it. */
  readonly scopes: readonly string[]
  /** Results that may be given again. @default none */
  readonly cache?: CachePolicy | undefined
  /** As `tools/list` says it. */
  readonly definition: ToolDefinition
  /** Looks at what a client sent. Never throws. */
  check(args: unknown): ArgumentCheck
  /** Why a result's structured part does not fit the output schema; `undefined` if it does, or there is none. */
  checkOutput(structured: unknown): string | undefined
}

export interface DroppedTool {
  readonly agentId: string
  readonly skillId: string
  readonly why: 'filtered' | 'hidden' | 'schema'
  /** For people. */
  readonly reason: string
}
