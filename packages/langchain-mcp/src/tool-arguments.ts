import { ToolInputParsingException } from '@langchain/core/tools'
import { isRecord } from './is-record.ts'
import type { SchemaCheck } from './schema-check.ts'

/**
 * The arguments as they will go over the wire, checked. A copy made through JSON: an optional argument
 * that is `undefined` is simply absent, and one called `__proto__` or `constructor` is data like any other.
 * No arguments at all are `{}`, which is how models call a tool without parameters.
 *
 * @throws {ToolInputParsingException} which `ToolNode` and `createAgent` hand back to the model
 */
export function toolArgumentsFrom(input: unknown, check: SchemaCheck): Record<string, unknown> {
  const json = JSON.stringify(input ?? {}) ?? '{}'
  const args: unknown = JSON.parse(json)
  const complaints = check.complaints(args)
  if (complaints.length > 0) {
    throw new ToolInputParsingException(
      `The arguments do not fit the tool's schema, so it was not called. ${complaints.join('; ')}`,
      json,
    )
  }
  if (!isRecord(args)) {
    throw new ToolInputParsingException('The arguments of an MCP tool are an object', json)
  }
  return { ...args }
}
