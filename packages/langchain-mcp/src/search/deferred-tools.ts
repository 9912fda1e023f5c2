import type { QuarantinedTool } from '../tool-source.ts'
import type { McpTool } from '../tools/mcp-tool.ts'
import { isSearched, namesOf, type ToolSearchOptions } from './tool-search.ts'

/** Keywords at the root of a schema for which `ChatAnthropic` leaves a tool out, without a message. */
const DROPPED_WITH = ['allOf', 'anyOf', 'oneOf']

/**
 * Marks tools for the provider's own search, with `search: 'provider'`: above the budget, all but those of `alwaysShow`.
 *
 * @returns the tools that `ChatAnthropic` drops, with the reasons
 */
export function deferTools(
  tools: readonly McpTool[],
  options: ToolSearchOptions,
): readonly QuarantinedTool[] {
  const { search, alwaysShow = [] } = options
  if (search !== 'provider' || !isSearched(tools, options)) return []
  for (const tool of tools) {
    if (namesOf(tool).some((name) => alwaysShow.includes(name))) continue
    tool.extras = { ...tool.extras, defer_loading: true }
  }
  return tools.flatMap(({ origin, schema }) => {
    const keyword = DROPPED_WITH.find((one) => Object.hasOwn(schema, one))
    if (keyword === undefined) return []
    const reason = `ChatAnthropic drops it, because its schema has "${keyword}" at the root. Set schemaFor: 'anthropic'`
    return [{ ...origin, reason }]
  })
}
