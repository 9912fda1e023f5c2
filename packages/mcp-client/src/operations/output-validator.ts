import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv'
import type { jsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/types.js'
import type { CallToolResult, Tool } from '@modelcontextprotocol/sdk/types.js'

/** One for all clients in the process: each of its own costs more memory than the client itself. */
export const sharedValidator: jsonSchemaValidator = new AjvJsonSchemaValidator()

type Check = (value: unknown) => string | undefined

const checks = new WeakMap<object, Check>()

/**
 * What is wrong with a result, by the output schema of its tool (2025-06-18, server/tools, "Output Schema");
 * `undefined` if nothing is. A tool that failed need not keep to it; a schema that cannot be used is the
 * server's affair.
 */
export function outputFault(tool: Tool, result: CallToolResult): string | undefined {
  const { outputSchema } = tool
  if (outputSchema === undefined || result.isError === true) return undefined
  if (result.structuredContent === undefined) return 'has no structured content'
  return checkOf(outputSchema)(result.structuredContent)
}

function checkOf(schema: NonNullable<Tool['outputSchema']>): Check {
  let check = checks.get(schema)
  if (check === undefined) {
    check = compile(schema)
    checks.set(schema, check)
  }
  return check
}

function compile(schema: NonNullable<Tool['outputSchema']>): Check {
  try {
    const validate = sharedValidator.getValidator(JSON.parse(JSON.stringify(schema)))
    return (value) => {
      const { valid, errorMessage } = validate(value)
      return valid ? undefined : (errorMessage ?? 'does not fit its schema')
    }
  } catch {
    return () => undefined
  }
}
