import type { CallToolResult, Tool } from '@modelcontextprotocol/sdk/types.js'
import { SchemaCheck } from '@x/internal/schema-check'
import { McpClientError } from './errors.ts'
import type { ScopeSlot } from './scope-slot.ts'

/** Tools that were reported, because their results lack the structured content that they declare. */
const withoutStructure = new WeakSet<Tool>()

/**
 * Returns the result if it fits the output schema of the tool, as far as that is known. Structured content that is
 * missing is only a warning: many servers declare a schema and send a text (n8n-mcp#343).
 *
 * @throws McpClientError `INVALID_OUTPUT`
 */
export function checkedResult(
  result: CallToolResult,
  name: string,
  slot: ScopeSlot,
): CallToolResult {
  const tool = slot.tools.find(name)
  if (tool?.outputSchema === undefined || result.isError === true) return result
  if (result.structuredContent === undefined) {
    const what = 'declares an output schema, but its result has no structured content'
    if (!withoutStructure.has(tool)) slot.log('warning', `tool "${name}" ${what}`)
    withoutStructure.add(tool)
    return result
  }
  const problem = outputProblem(tool, result)
  if (problem === undefined) return result
  const { server } = slot
  const message = `tool "${name}" of MCP server "${server}" has run, but its output ${problem}`
  const outcome = 'executed'
  throw new McpClientError('INVALID_OUTPUT', message, { server, tool: name, outcome, result })
}

const checks = new WeakMap<object, SchemaCheck>()

/**
 * Checks structured content against the output schema of its tool (2025-06-18, server/tools, "Output Schema"). Returns
 * the problem, or undefined. A schema that cannot be used checks nothing.
 */
export function outputProblem({ outputSchema }: Tool, result: CallToolResult): string | undefined {
  if (outputSchema === undefined) return undefined
  let check = checks.get(outputSchema)
  if (check === undefined) {
    check = new SchemaCheck(outputSchema, { ignoreFormats: true })
    checks.set(outputSchema, check)
  }
  const errors = check.errors(result.structuredContent)
  return errors.length === 0 ? undefined : `does not fit its schema: ${errors.join('; ')}`
}
