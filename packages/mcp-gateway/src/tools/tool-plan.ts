import type { CheckedInput } from '../agents/agent-call.ts'
import type { Agent, JsonSchema, Skill, SkillAnnotations } from '../agents/agent.ts'
import type { RunTool } from '../agents/run-tool.ts'
import type { CachePolicy } from '../options.ts'
import type { MetaTool } from './meta-tools.ts'
import type { NameCollision } from './names.ts'
import type { PlannedPrompt } from './skill-prompts.ts'

/**
 * All that the gateway offers at one moment. Never changes: a change of agents makes another plan. `listTools` and
 * `listPrompts` decide what a caller may see.
 */
export interface ToolPlan {
  /** Sorted by name. */
  readonly tools: readonly PlannedTool[]
  /** What `tools/list` returns to a caller who may see everything, sorted by name. */
  readonly listed: readonly (PlannedTool | ListedTool)[]
  byName(name: string): PlannedTool | undefined
  /** Finds the tool of a skill by ids. */
  bySkill(agentId: string, skillId: string): PlannedTool | undefined
  /** Meta-tools, if they are switched on. */
  readonly metaTools: readonly MetaTool[]
  /** Sorted by name. */
  readonly prompts: readonly PlannedPrompt[]
  promptByName(name: string): PlannedPrompt | undefined
  /** All agents, also those without a tool, sorted by id. */
  readonly agents: readonly Agent[]
  /** 16 hex digits. Equal in all processes whose clients see the same lists. Does not depend on health. */
  readonly version: string
  readonly toolsVersion: string
  readonly promptsVersion: string
  /** Skills whose names others want too. */
  readonly collisions: readonly NameCollision[]
  /** Skills that became no tool, with the reasons. */
  readonly dropped: readonly DroppedTool[]
  /** Problems of the configuration with these agents, such as an override that fits no skill. */
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
  /** Whether the tool takes a message, or arguments by the schema of the skill. */
  readonly parameters: 'message' | 'schema'
  /** Scopes that a caller needs, all of them, to see the tool and to call it. */
  readonly scopes: readonly string[]
  /** How results are cached. @default not */
  readonly cache?: CachePolicy | undefined
  /** Entry in `tools/list`. */
  readonly definition: ToolDefinition
  /** Checks the arguments of a call. Never throws. */
  check(args: unknown): ArgumentCheck
  /** Returns why a structured result does not fit the output schema. `undefined` if it fits, or there is no schema. */
  checkOutput(structured: unknown): string | undefined
}

export interface DroppedTool {
  readonly agentId: string
  readonly skillId: string
  readonly why: 'filtered' | 'hidden' | 'schema'
  /** For people. */
  readonly reason: string
}

/** A tool in `tools/list` (specification 2026-07-28, "Tool"). */
export interface ToolDefinition {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly inputSchema: { readonly type: 'object'; readonly [keyword: string]: unknown }
  readonly outputSchema?: { readonly type: 'object'; readonly [keyword: string]: unknown }
  readonly annotations?: SkillAnnotations
  readonly _meta?: Readonly<Record<string, unknown>>
}

/** A tool of the gateway in a list. */
export interface ListedTool {
  readonly name: string
  readonly definition: ToolDefinition
}

/** Result of the check of the arguments of a call. */
export type ArgumentCheck =
  | { readonly ok: true; readonly arguments: CheckedArguments }
  /** Tells the model which argument is wrong, and why. It becomes a tool error, not a protocol error. */
  | { readonly ok: false; readonly complaint: string }

/** Arguments of a call, in parts. */
export interface CheckedArguments {
  /** Input of the agent. `undefined` only if `resume` came alone. */
  readonly input?: CheckedInput | undefined
  /** URIs of artifacts. They may not exist. */
  readonly files: readonly string[]
  readonly resume?: ResumeArgument | undefined
  /** Where artifacts go: a handle of an earlier call. */
  readonly scope?: string | undefined
  readonly idempotencyKey?: string | undefined
}

/** Continues a run that asked a question, for clients that cannot be asked directly. */
export interface ResumeArgument {
  readonly run: string
  /** Answers by the keys of their questions. */
  readonly answers: Readonly<Record<string, unknown>>
}
