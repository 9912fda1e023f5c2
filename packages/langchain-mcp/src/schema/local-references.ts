import { isRecord } from '@x/internal'
import type { JsonSchema } from '../catalogue/tool-source.ts'
import { subschemasOf } from './subschemas.ts'

/** Where a schema that names itself nothing is thought to be. */
const NOWHERE = 'https://schema.invalid/'

/** What a `$ref` leads to. */
export type Reference =
  | { readonly kind: 'schema'; readonly schema: JsonSchema | boolean }
  | { readonly kind: 'remote' } // in another document, which is never fetched
  | { readonly kind: 'broken' } // in this document, but nothing that is a schema is there

const BROKEN: Reference = { kind: 'broken' }

/** Resolves the `$ref`s of one schema inside of it: pointers, anchors, and `$id`s of embedded schemas (2020-12 core, 8.2). */
export class LocalReferences {
  readonly #root: JsonSchema
  /** The document that a schema belongs to, where that is not the root's. */
  readonly #bases = new Map<object, string>()
  readonly #documents = new Map<string, JsonSchema>()
  readonly #anchors = new Map<string, JsonSchema>()

  readonly #hasNames: boolean

  /** `hasNames: false` where no schema inside is known to name itself: most do not, and pointers are all there is. */
  constructor(root: JsonSchema, { hasNames = true }: { readonly hasNames?: boolean } = {}) {
    this.#root = root
    this.#hasNames = hasNames
  }

  resolve(reference: string, from: JsonSchema): Reference {
    if (!this.#hasNames && (reference === '#' || reference.startsWith('#/'))) {
      const pointer = decoded(reference.slice(1))
      return pointer === undefined ? BROKEN : referenceTo(valueAt(this.#root, pointer))
    }
    this.#index(this.#root, NOWHERE) // most schemas refer to nothing
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
      this.#anchors.set(`${outerBase}${url.hash}`, schema) // draft-07 wrote anchors so
    } else if (url !== undefined) {
      url.hash = ''
      base = url.href
    }
    this.#bases.set(schema, base)
    if (base !== outerBase || schema === this.#root) this.#documents.set(base, schema)
    const { $anchor: anchor, $dynamicAnchor: dynamic } = schema
    if (typeof anchor === 'string') this.#anchors.set(`${base}#${anchor}`, schema)
    if (typeof dynamic === 'string') this.#anchors.set(`${base}#${dynamic}`, schema)
    for (const { schema: inner } of subschemasOf(schema)) {
      if (isRecord(inner)) this.#index(inner, base)
    }
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
