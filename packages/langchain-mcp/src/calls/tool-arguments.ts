import { ToolInputParsingException } from '@langchain/core/tools'
import { isRecord } from '@x/internal'

/**
 * What a model gave as arguments, as JSON: an optional argument that is `undefined` is simply absent, and
 * one called `__proto__` or `constructor` is data like any other. No arguments at all are `{}`, which is
 * how models call a tool without parameters.
 */
export function jsonArgumentsFrom(input: unknown): unknown {
  return JSON.parse(JSON.stringify(input ?? {}) ?? '{}')
}

/**
 * The arguments as they will go over the wire, if nothing is wrong with them.
 *
 * @throws {ToolInputParsingException} which `ToolNode` and `createAgent` hand back to the model
 */
export function acceptedArguments(
  args: unknown,
  { given, complaints }: { readonly given: unknown; readonly complaints: readonly string[] },
): Record<string, unknown> {
  // What the model gave, not what it was merged with: that may hold what nobody is to see.
  const json = (): string => JSON.stringify(given) ?? ''
  if (complaints.length > 0) {
    throw new ToolInputParsingException(
      `The arguments do not fit the tool's schema, so it was not called. ${complaints.join('; ')}`,
      json(),
    )
  }
  if (!isRecord(args)) {
    throw new ToolInputParsingException('The arguments of an MCP tool are an object', json())
  }
  return { ...args }
}
