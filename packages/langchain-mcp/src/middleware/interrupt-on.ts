import type { McpTool } from '../calls/mcp-tool.ts'
import { mayDestroy } from '../calls/tool-approval.ts'

/** How LangChain's human-in-the-loop middleware treats a tool. */
export interface InterruptOn {
  readonly allowedDecisions: ('approve' | 'edit' | 'reject')[]
  readonly description: string
}

/**
 * What `humanInTheLoopMiddleware({ interruptOn })` takes, for those who want its one interrupt for all calls
 * of a message in place of `approve`. The keys are the names that the model uses, whatever became of them
 * on the way.
 *
 * @param asks which tools a person has to approve. The default goes by annotations, as `approve: 'destructive'` does
 */
export function interruptOnFrom(
  tools: readonly McpTool[],
  asks: (tool: McpTool) => boolean = ({ definition }) => mayDestroy(definition),
): Record<string, InterruptOn> {
  return Object.fromEntries(
    tools.filter(asks).map((tool) => [
      tool.name,
      {
        allowedDecisions: ['approve', 'edit', 'reject'],
        description: `MCP tool "${tool.definition.title ?? tool.origin.toolName}" is about to be called`,
      },
    ]),
  )
}
