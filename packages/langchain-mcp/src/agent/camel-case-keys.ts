import { isRecord } from '@x/internal'

/**
 * Reads snake_case spellings (`folder_path`), as Python writes them, as the camelCase fields of the given
 * names; if both are there, the camelCase one counts. Everything else is kept, and what is inside the
 * fields is not touched: a tool's schema may have properties of any spelling.
 */
export function camelCased(names: readonly string[]): (value: unknown) => unknown {
  const nameOf = new Map(names.map((name) => [snakeCaseOf(name), name]))
  return (value) => {
    if (!isRecord(value)) return value
    const fields = Object.entries(value).map(([key, field]) => {
      const name = nameOf.get(key)
      return [name === undefined || Object.hasOwn(value, name) ? key : name, field] as const
    })
    return Object.fromEntries(fields)
  }
}

function snakeCaseOf(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
