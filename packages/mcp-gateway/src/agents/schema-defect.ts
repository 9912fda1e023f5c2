import { isRecord, mapSubschemas, SchemaDocument } from '@x/internal'

type Schema = Readonly<Record<string, unknown>>

const LIMITS = { depth: 64, nodes: 20_000 }
const MAX_CHARACTERS = 65_536

/**
 * Returns why a schema cannot be the schema of a tool, or `undefined` if it can. It checks form and size only.
 * Other defects show when the schema is compiled, which costs more and waits for the first call.
 */
export function schemaDefectOf(schema: unknown): string | undefined {
  if (!isRecord(schema)) return 'it is not an object'
  const { type } = schema
  if (type !== undefined && type !== 'object') {
    return `it is of type ${JSON.stringify(type)?.slice(0, 60)}, not "object"`
  }
  return (
    new SchemaDocument(schema, LIMITS).defect ?? sizeDefectOf(schema) ?? patternDefectOf(schema)
  )
}

/** An object of this process may contain values that JSON does not have. */
function sizeDefectOf(schema: Schema): string | undefined {
  try {
    const isLong = JSON.stringify(schema).length > MAX_CHARACTERS
    return isLong ? `it has more than ${MAX_CHARACTERS} characters` : undefined
  } catch {
    return 'it contains a value that JSON does not have'
  }
}

function patternDefectOf(root: Schema): string | undefined {
  let defect: string | undefined
  mapSchemas(root, (schema) => {
    const { pattern } = schema
    if (pattern !== undefined && !isExpression(pattern)) {
      defect = '"pattern" is not a valid regular expression'
    }
    return schema
  })
  return defect
}

function isExpression(value: unknown): boolean {
  try {
    return typeof value === 'string' && new RegExp(value, 'u') instanceof RegExp
  } catch {
    return false
  }
}

/** Returns the schema with each of its own schemas replaced, from the inside out. Other values stay. */
export function mapSchemas(schema: Schema, replace: (schema: Schema) => Schema): Schema {
  return replace(
    mapSubschemas(schema, (inner) => (isRecord(inner) ? mapSchemas(inner, replace) : inner)),
  )
}

/**
 * Removes `x-mcp-header`. It tells clients to repeat an argument as a header, and a server that repeats the
 * schema of another one would have to compare both (specification 2026-07-28, "Custom Headers").
 */
export function withoutHeaderHints(schema: Schema): Schema {
  return mapSchemas(schema, ({ 'x-mcp-header': _hint, ...rest }) => rest)
}
