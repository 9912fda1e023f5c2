import type { McpTool, McpTools } from '../src/index.ts'

export function namesOf(tools: readonly { readonly name: string }[]): string[] {
  return tools.map(({ name }) => name)
}

/** Returns one tool of the current list. */
export async function toolOf(mcp: McpTools, name: string): Promise<McpTool> {
  const tool = (await mcp.listTools()).find((one) => one.name === name)
  if (tool === undefined) throw new Error(`There is no tool ${name}`)
  return tool
}

/** A call of the model. */
export function toolCall(
  name: string,
  args: Record<string, unknown> = {},
): {
  readonly type: 'tool_call'
  readonly id: string
  readonly name: string
  readonly args: Record<string, unknown>
} {
  return { type: 'tool_call', id: 'call-1', name, args }
}
