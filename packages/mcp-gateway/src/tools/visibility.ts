import { mayUse } from '../internal/principal.ts'
import type { Principal } from '../internal/principal.ts'
import { nearestNames } from './nearest-names.ts'
import { type PromptDefinition, promptDefinitionOf } from './skill-prompts.ts'
import type { ListedTool, ToolDefinition } from './tool-definition.ts'
import type { PlannedTool, ToolPlan } from './tool-plan.ts'

/** What `tools/list` says to this caller, by name. The same for all callers with the same scopes. */
export function listTools(plan: ToolPlan, principal: Principal): readonly ToolDefinition[] {
  return plan.listed
    .filter((tool) => !isOfAgent(tool) || mayUse(principal, tool))
    .map(({ definition }) => definition)
}

/** What `prompts/list` says to this caller, by name. */
export function listPrompts(plan: ToolPlan, principal: Principal): readonly PromptDefinition[] {
  return plan.prompts.filter((prompt) => mayUse(principal, prompt)).map(promptDefinitionOf)
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

function isOfAgent(tool: PlannedTool | ListedTool): tool is PlannedTool {
  return 'agent' in tool
}
