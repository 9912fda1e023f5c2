import { editDistance } from '@x/internal'
import { compareText } from '../agents/agent.ts'
import { mayUse } from '../internal/principal.ts'
import type { Principal } from '../internal/principal.ts'
import { type PromptDefinition, promptDefinitionOf } from './skill-prompts.ts'
import type { ListedTool, PlannedTool, ToolDefinition, ToolPlan } from './tool-plan.ts'

/** Returns the tools that this caller may see, sorted by name. Callers with the same scopes see the same. */
export function listTools(plan: ToolPlan, principal: Principal): readonly ToolDefinition[] {
  return plan.listed
    .filter((tool) => !isOfAgent(tool) || mayUse(principal, tool))
    .map(({ definition }) => definition)
}

/** Returns the prompts that this caller may see, sorted by name. */
export function listPrompts(plan: ToolPlan, principal: Principal): readonly PromptDefinition[] {
  return plan.prompts.filter((prompt) => mayUse(principal, prompt)).map(promptDefinitionOf)
}

/** Returns the names most like a name that does not exist, of the tools that this caller may see. */
export function nearestTools(
  plan: ToolPlan,
  principal: Principal,
  name: string,
): readonly string[] {
  return nearestNames(
    name,
    listTools(plan, principal).map((tool) => tool.name),
  )
}

function isOfAgent(tool: PlannedTool | ListedTool): tool is PlannedTool {
  return 'agent' in tool
}

const MAX_COMPARED = 64

/** Returns the `count` names that are most like `name`, the nearest first: what a caller may have meant. */
export function nearestNames(name: string, names: readonly string[], count = 3): readonly string[] {
  const wanted = name.slice(0, MAX_COMPARED)
  return names
    .map((each) => ({ each, distance: editDistance(wanted, each.slice(0, MAX_COMPARED)) }))
    .toSorted((a, b) => a.distance - b.distance || compareText(a.each, b.each))
    .slice(0, count)
    .map(({ each }) => each)
}
