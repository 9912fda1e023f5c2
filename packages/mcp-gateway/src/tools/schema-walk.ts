import { isRecord } from '@x/internal'

type Schema = Readonly<Record<string, unknown>>

/** Keywords whose value is a schema, or a list of them. */
const SCHEMAS: ReadonlySet<string> = new Set([
  'allOf',
  'anyOf',
  'oneOf',
  'not',
  'if',
  'then',
  'else',
  'items',
  'prefixItems',
  'additionalItems',
  'unevaluatedItems',
  'contains',
  'additionalProperties',
  'unevaluatedProperties',
  'propertyNames',
  'contentSchema',
])

/** Keywords whose value has a schema for each name. */
const MAPS: ReadonlySet<string> = new Set([
  'properties',
  'patternProperties',
  'dependentSchemas',
  '$defs',
  'definitions',
])

/** The schema with each of its own schemas replaced, from the inside out. Values that are no schemas stay. */
export function mapSchemas(schema: Schema, replace: (schema: Schema) => Schema): Schema {
  const mapped = (value: unknown): unknown => (isRecord(value) ? mapSchemas(value, replace) : value)
  return replace(
    Object.fromEntries(
      Object.entries(schema).map(([keyword, value]) => {
        if (SCHEMAS.has(keyword)) {
          return [keyword, Array.isArray(value) ? value.map(mapped) : mapped(value)]
        }
        if (!MAPS.has(keyword) || !isRecord(value)) return [keyword, value]
        const named = Object.entries(value).map(([name, inner]) => [name, mapped(inner)])
        return [keyword, Object.fromEntries(named)]
      }),
    ),
  )
}

/**
 * Without `x-mcp-header`: it tells clients to repeat an argument as a header, which whoever repeats a schema
 * of somebody else's would then have to compare (specification 2026-07-28, "Custom Headers").
 */
export function withoutHeaderHints(schema: Schema): Schema {
  return mapSchemas(schema, ({ 'x-mcp-header': _hint, ...rest }) => rest)
}
