import { isRecord } from '@x/internal'
import type { JsonSchema } from '../catalogue/tool-source.ts'

/** A place in a schema that holds another one. */
export interface Subschema {
  /** Keyword, and the name or index below it. */
  readonly path: readonly string[]
  readonly schema: unknown
  /** Applies to the same value as the schema around it, not to a part of it. */
  readonly isInPlace: boolean
}

type Shape = 'schema' | 'list' | 'map'

interface SchemaKeyword {
  readonly shape: Shape
  readonly isInPlace?: true
}

/** What holds schemas, in 2020-12 and the drafts before it; `items` was a list in draft-07, `dependencies` a mixture. */
const KEYWORDS: ReadonlyMap<string, SchemaKeyword> = new Map(
  Object.entries({
    allOf: { shape: 'list', isInPlace: true },
    anyOf: { shape: 'list', isInPlace: true },
    oneOf: { shape: 'list', isInPlace: true },
    not: { shape: 'schema', isInPlace: true },
    if: { shape: 'schema', isInPlace: true },
    // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON schema
    then: { shape: 'schema', isInPlace: true },
    else: { shape: 'schema', isInPlace: true },
    dependentSchemas: { shape: 'map', isInPlace: true },
    dependencies: { shape: 'map', isInPlace: true },
    properties: { shape: 'map' },
    patternProperties: { shape: 'map' },
    additionalProperties: { shape: 'schema' },
    unevaluatedProperties: { shape: 'schema' },
    propertyNames: { shape: 'schema' },
    prefixItems: { shape: 'list' },
    items: { shape: 'schema' },
    additionalItems: { shape: 'schema' },
    unevaluatedItems: { shape: 'schema' },
    contains: { shape: 'schema' },
    $defs: { shape: 'map' },
    definitions: { shape: 'map' },
  } as const),
)

/** What a keyword holds, where that is schemas; the value of any other one is data. */
export function schemaKeyword(keyword: string): SchemaKeyword | undefined {
  return KEYWORDS.get(keyword)
}

/** The same as `subschemasOf`, for those who do not ask where they are. */
export function eachSubschema(
  schema: JsonSchema,
  visit: (inner: unknown, isInPlace: boolean) => void,
): void {
  for (const keyword of Object.keys(schema)) {
    const known = KEYWORDS.get(keyword)
    const value = known === undefined ? undefined : schema[keyword]
    if (known === undefined || value === undefined) continue
    const { shape, isInPlace = false } = known
    if (Array.isArray(value)) {
      for (const inner of value) visit(inner, isInPlace)
    } else if (shape === 'map' && isRecord(value)) {
      for (const name of Object.keys(value)) {
        const inner = value[name]
        if (keyword !== 'dependencies' || !Array.isArray(inner)) visit(inner, isInPlace)
      }
    } else {
      visit(value, isInPlace)
    }
  }
}

/** The schemas directly inside a schema. What stands in other places (`default`, `examples`, `enum`) is data. */
export function subschemasOf(schema: JsonSchema): Subschema[] {
  const found: Subschema[] = []
  for (const keyword of Object.keys(schema)) {
    const known = KEYWORDS.get(keyword)
    const value = known === undefined ? undefined : schema[keyword]
    if (known === undefined || value === undefined) continue
    const { shape, isInPlace = false } = known
    if (Array.isArray(value)) {
      for (const [index, inner] of value.entries()) {
        found.push({ path: [keyword, String(index)], schema: inner, isInPlace })
      }
    } else if (shape === 'map' && isRecord(value)) {
      for (const [name, inner] of Object.entries(value)) {
        if (keyword === 'dependencies' && Array.isArray(inner)) continue
        found.push({ path: [keyword, name], schema: inner, isInPlace })
      }
    } else {
      found.push({ path: [keyword], schema: value, isInPlace })
    }
  }
  return found
}

/** The same schema with every schema directly inside it replaced. A copy, `__proto__` being a name like others. */
export function mapSubschemas(
  schema: JsonSchema,
  change: (inner: unknown, path: readonly string[]) => unknown,
): Record<string, unknown> {
  return recordOf(
    Object.entries(schema).map(([keyword, value]) => {
      const { shape } = KEYWORDS.get(keyword) ?? {}
      if (shape === undefined || value === undefined) return [keyword, value]
      if (Array.isArray(value)) {
        return [
          keyword,
          value.map((inner: unknown, index) => change(inner, [keyword, String(index)])),
        ]
      }
      if (shape !== 'map' || !isRecord(value)) return [keyword, change(value, [keyword])]
      const entries = Object.entries(value).map(([name, inner]): [string, unknown] => [
        name,
        keyword === 'dependencies' && Array.isArray(inner) ? inner : change(inner, [keyword, name]),
      ])
      return [keyword, recordOf(entries)]
    }),
  )
}

/** `Object.fromEntries`: unlike assignment it makes `__proto__` a field. */
function recordOf(entries: readonly (readonly [string, unknown])[]): Record<string, unknown> {
  return Object.fromEntries(entries)
}

/** A place in a schema as a JSON pointer in a fragment. */
export function pointerOf(path: readonly string[]): string {
  return ['#', ...path.map((step) => step.replaceAll('~', '~0').replaceAll('/', '~1'))].join('/')
}
