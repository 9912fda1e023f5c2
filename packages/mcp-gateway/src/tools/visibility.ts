import { isAllowed, type Principal } from '../auth/principal.ts'
import type { MetaTool } from './meta-tools.ts'
import { nearestNames } from './nearest-names.ts'
import { type PromptDefinition, promptDefinitionOf } from './skill-prompts.ts'
import type { PlannedTool, ToolDefinition, ToolPlan } from './tool-plan.ts'

/** Whether a caller may see this and use it: it needs all scopes. What cannot be decided is a no. */
export function isVisible(
  principal: Principal,
  { scopes }: { scopes: readonly string[] },
): boolean {
  try {
    return scopes.every((scope) => isAllowed(principal, scope))
  } catch {
    return false
  }
}

/** What `tools/list` says to this caller, by name. The same for all callers with the same scopes. */
export function listTools(plan: ToolPlan, principal: Principal): readonly ToolDefinition[] {
  return plan.listed
    .filter((tool) => isMeta(tool) || isVisible(principal, tool))
    .map(({ definition }) => definition)
}

/** What `prompts/list` says to this caller, by name. */
export function listPrompts(plan: ToolPlan, principal: Principal): readonly PromptDefinition[] {
  return plan.prompts.filter((prompt) => isVisible(principal, prompt)).map(promptDefinitionOf)
}

/** For a caller whose tool is not there: those that are called most alike, of those it may see. */
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

function isMeta(tool: PlannedTool | MetaTool): tool is MetaTool {
  return !('agent' in tool)
}
