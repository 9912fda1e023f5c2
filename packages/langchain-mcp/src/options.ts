import { assertOptions as assertAnyOptions, check, isRecord } from '@x/internal'
import type { Check } from '@x/internal'
import { McpClientError } from '@x/mcp-client'

/**
 * Throws for options that are unknown or have a wrong value. The compiler cannot see options that come from
 * a file or from JavaScript.
 *
 * @param owner the function that takes the options
 * @throws {McpClientError} `CONFIG` that names the option and the accepted values
 */
export function assertOptions(
  owner: string,
  options: unknown,
  checks: Readonly<Record<string, Check>>,
): void {
  assertAnyOptions(({ message }) => configError(`${owner}: ${message}`), options, checks)
}

export function wordOrFunction(...words: readonly string[]): Check {
  return check.or(check.oneOf(...words), check.func)
}

export function wrongValue(place: string, takes: string, value: unknown): McpClientError {
  const quoted = typeof value === 'string' ? `"${value}"` : undefined
  const type = value === null ? 'null' : Array.isArray(value) ? 'a list' : typeof value
  return configError(`${place}: expected ${takes}, got ${quoted ?? type}`)
}

export function configError(message: string): McpClientError {
  return new McpClientError('CONFIG', message, { server: 'all', outcome: 'not-executed' })
}

/**
 * Returns a function that renames snake_case fields (`folder_path`, the Python spelling) to these camelCase
 * names. If both spellings are present, the camelCase field is used. Other fields and nested values stay as
 * they are, because the properties of a tool's schema may have any spelling.
 */
export function camelCased(names: readonly string[]): (value: unknown) => unknown {
  const camelNames = new Map(
    names.map((name) => [name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), name]),
  )
  return (value) => {
    if (!isRecord(value)) return value
    const fields = Object.entries(value).map(([key, field]) => {
      const name = camelNames.get(key)
      return [name === undefined || Object.hasOwn(value, name) ? key : name, field] as const
    })
    return Object.fromEntries(fields)
  }
}
