import { isRecord } from '@x/internal'
import type { JsonSchema } from '../base/tool-source.ts'

type Shape = 'schema' | 'list' | 'map'

interface SchemaKeyword {
  readonly shape: Shape
  readonly isInPlace?: true
}

/**
 * Keywords that contain schemas, in 2020-12 and older drafts. In draft-07 `items` may be a list, and
 * `dependencies` may contain lists of names.
 */
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

/** Returns how a keyword contains schemas, or undefined if its value is data. */
export function schemaKeyword(keyword: string): SchemaKeyword | undefined {
  return KEYWORDS.get(keyword)
}

/** Calls `visit` for the schemas directly inside a schema. Values of other keywords (`default`, `enum`) are data. */
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

/**
 * Returns a copy of a schema with every schema directly inside it replaced. `__proto__` is a name like any
 * other.
 */
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

/** `Object.fromEntries` makes `__proto__` a field; an assignment would not. */
function recordOf(entries: readonly (readonly [string, unknown])[]): Record<string, unknown> {
  return Object.fromEntries(entries)
}

/** Returns a place in a schema as a JSON pointer with `#`. */
export function pointerOf(path: readonly string[]): string {
  return ['#', ...path.map((step) => step.replaceAll('~', '~0').replaceAll('/', '~1'))].join('/')
}

/** Base URL of a schema without an `$id`. */
const NOWHERE = 'https://schema.invalid/'

/** Target of a `$ref`. */
type Reference =
  | { readonly kind: 'schema'; readonly schema: JsonSchema | boolean }
  | { readonly kind: 'remote' } // in another document, which is never fetched
  | { readonly kind: 'broken' } // in this document, at a place without a schema

const BROKEN: Reference = { kind: 'broken' }

/**
 * Resolves the `$ref`s inside one schema: pointers, anchors, and `$id`s of embedded schemas (2020-12 core,
 * 8.2).
 */
export class LocalReferences {
  readonly #root: JsonSchema
  /** Base URLs of schemas in embedded documents. */
  readonly #bases = new Map<object, string>()
  readonly #documents = new Map<string, JsonSchema>()
  readonly #anchors = new Map<string, JsonSchema>()

  readonly #hasNames: boolean

  /** `hasNames: false` if no schema inside has an `$id` or an anchor. Then only pointers are resolved. */
  constructor(root: JsonSchema, { hasNames = true }: { readonly hasNames?: boolean } = {}) {
    this.#root = root
    this.#hasNames = hasNames
  }

  resolve(reference: string, from: JsonSchema): Reference {
    if (!this.#hasNames && (reference === '#' || reference.startsWith('#/'))) {
      const pointer = decoded(reference.slice(1))
      return pointer === undefined ? BROKEN : referenceTo(valueAt(this.#root, pointer))
    }
    this.#index(this.#root, NOWHERE) // built at the first reference, because most schemas have none
    const base = this.#bases.get(from) ?? this.#rootBase
    const url = urlFrom(reference, base)
    if (url === undefined) return BROKEN
    const fragment = decoded(url.hash.slice(1))
    url.hash = ''
    const document = this.#documents.get(url.href)
    if (document === undefined) {
      return { kind: url.href.startsWith(NOWHERE) ? 'broken' : 'remote' }
    }
    if (fragment === undefined) return BROKEN
    const found =
      fragment === '' || fragment.startsWith('/')
        ? valueAt(document, fragment)
        : this.#anchors.get(`${url.href}#${fragment}`)
    return referenceTo(found)
  }

  get #rootBase(): string {
    return this.#bases.get(this.#root) ?? NOWHERE
  }

  #index(schema: JsonSchema, outerBase: string): void {
    if (this.#bases.has(schema)) return
    const id = schema['$id'] ?? (schema === this.#root ? schema['id'] : undefined)
    const url = typeof id === 'string' ? urlFrom(id, outerBase) : undefined
    let base = outerBase
    if (url !== undefined && url.hash.length > 1) {
      this.#anchors.set(`${outerBase}${url.hash}`, schema) // draft-07 has anchors in this form
    } else if (url !== undefined) {
      url.hash = ''
      base = url.href
    }
    this.#bases.set(schema, base)
    if (base !== outerBase || schema === this.#root) this.#documents.set(base, schema)
    const { $anchor: anchor, $dynamicAnchor: dynamic } = schema
    if (typeof anchor === 'string') this.#anchors.set(`${base}#${anchor}`, schema)
    if (typeof dynamic === 'string') this.#anchors.set(`${base}#${dynamic}`, schema)
    eachSubschema(schema, (inner) => {
      if (isRecord(inner)) this.#index(inner, base)
    })
  }
}

function referenceTo(found: unknown): Reference {
  if (typeof found === 'boolean' || isRecord(found)) return { kind: 'schema', schema: found }
  return BROKEN
}

function urlFrom(reference: string, base: string): URL | undefined {
  return URL.parse(reference, base) ?? undefined
}

function decoded(fragment: string): string | undefined {
  try {
    return decodeURIComponent(fragment)
  } catch {
    return undefined
  }
}

function valueAt(document: JsonSchema, pointer: string): unknown {
  let value: unknown = document
  for (const step of pointer.split('/').slice(1)) {
    const name = step.replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = Object.getOwnPropertyDescriptor(value, name)?.value
  }
  return value
}
