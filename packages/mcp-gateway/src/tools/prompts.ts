import { shortened } from './describe.ts'
import type { PlannedTool } from './plan.ts'

/** An example of a skill, as a prompt. */
export interface PlannedPrompt {
  readonly name: string
  readonly title: string
  readonly description: string
  /** What the user says. */
  readonly text: string
  /** All of which a caller needs to see it: those of its tool. */
  readonly scopes: readonly string[]
}

const MAX_EXAMPLES = 20
const MAX_TITLE = 80

/** One prompt for each example of a tool's skill. */
export function promptsOf(tool: PlannedTool): readonly PlannedPrompt[] {
  const examples = (tool.skill.examples ?? []).filter((example) => example.trim() !== '')
  return examples.slice(0, MAX_EXAMPLES).map((example, index) => ({
    name: `${tool.name}_example_${index + 1}`,
    title: shortened(example.trim().split('\n')[0] ?? '', MAX_TITLE),
    description: `Example for ${tool.title}`,
    text: example.trim(),
    scopes: tool.scopes,
  }))
}

/** As `prompts/list` says it (specification 2026-07-28, "Prompt"). */
export interface PromptDefinition {
  readonly name: string
  readonly title: string
  readonly description: string
}

export function promptDefinitionOf({ name, title, description }: PlannedPrompt): PromptDefinition {
  return { name, title, description }
}

/** As `prompts/get` answers (specification 2026-07-28, "GetPromptResult"). */
export interface PromptContent {
  readonly description: string
  readonly messages: readonly {
    readonly role: 'user'
    readonly content: { readonly type: 'text'; readonly text: string }
  }[]
}

export function promptContentOf({ description, text }: PlannedPrompt): PromptContent {
  return { description, messages: [{ role: 'user', content: { type: 'text', text } }] }
}
