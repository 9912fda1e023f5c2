import type { SkillAnnotations } from '../agents/agent.ts'

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

/** What the list says, by its name. */
export interface ListedTool {
  readonly name: string
  readonly definition: ToolDefinition
}
