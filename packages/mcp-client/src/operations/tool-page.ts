import { ToolSchema } from '@modelcontextprotocol/sdk/types.js'
import type { Tool } from '@modelcontextprotocol/sdk/types.js'

/** One page of `tools/list`, and what of it could not be used. */
export interface ToolPage {
  readonly tools: readonly Tool[]
  readonly nextCursor?: string | undefined
  readonly setAside?: readonly string[] | undefined
}

/**
 * Checks what a server answered to `tools/list`, tool by tool: one with an invalid definition costs only
 * itself. An output schema that is not of an object, which revision 2026-07-28 allows, is left out.
 *
 * @returns undefined for what is no list at all
 */
export function toolPageFrom(result: Readonly<Record<string, unknown>>): ToolPage | undefined {
  const { tools: list, nextCursor } = result
  if (!Array.isArray(list)) return undefined
  if (nextCursor !== undefined && typeof nextCursor !== 'string') return undefined
  const tools: Tool[] = []
  const setAside: string[] = []
  for (const [index, value] of list.entries()) {
    const tool = toolFrom(value)
    if (typeof tool === 'string') setAside.push(`tool ${index + 1}: ${tool}`)
    else tools.push(tool)
  }
  return { tools, nextCursor, setAside }
}

/** The tool, or why it is none. */
function toolFrom(value: unknown): Tool | string {
  const parsed = ToolSchema.safeParse(value)
  if (parsed.success) return parsed.data
  const { issues } = parsed.error
  if (typeof value === 'object' && issues.every(({ path }) => path[0] === 'outputSchema')) {
    const rest = ToolSchema.safeParse({ ...value, outputSchema: undefined })
    if (rest.success) return rest.data
  }
  const [issue] = issues
  return `${issue?.path.join('.') ?? ''} ${issue?.message ?? 'is invalid'}`.trim()
}
