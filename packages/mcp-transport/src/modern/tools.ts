import { isRecord } from '@x/internal'
import type { JsonRpcRequest } from '../json-rpc.ts'
import type { ToolHeader, ToolHeaderMap } from '../session-record.ts'

export interface ToolCatalogOptions {
  /** Headers from the session record. */
  readonly known?: ToolHeaderMap | undefined
  /** Called with all tool headers when new ones were learned. */
  readonly onLearned: (headers: ToolHeaderMap) => void
  /** Reads a page of `tools/list`. Undefined if it failed. */
  readonly readPage: (
    cursor: string | undefined,
    signal: AbortSignal,
  ) => Promise<Readonly<Record<string, unknown>> | undefined>
  /** Called once for each tool that is left out. */
  readonly onLeftOut: (name: string, reason: string) => void
}

const MAX_PAGES = 64

/** Knows which tool arguments are sent as headers, and converts tool lists and results for SDK v1. */
export class ToolCatalog {
  readonly #options: ToolCatalogOptions
  readonly #headers: Map<string, readonly ToolHeader[]>
  /** Listed tools whose output is wrapped in an object. */
  readonly #wrapped = new Map<string, boolean>()
  readonly #leftOut = new Set<string>()

  constructor(options: ToolCatalogOptions) {
    this.#options = options
    this.#headers = new Map(Object.entries(options.known ?? {}))
  }

  getHeaders(tool: unknown): readonly ToolHeader[] {
    return (typeof tool === 'string' ? this.#headers.get(tool) : undefined) ?? []
  }

  /** Converts the result of a request for a client of SDK v1. */
  bridge(
    { method, params }: Pick<JsonRpcRequest, 'method' | 'params'>,
    result: Readonly<Record<string, unknown>>,
  ): Readonly<Record<string, unknown>> {
    if (method === 'tools/list') return this.#list(result)
    if (method !== 'tools/call' || result['structuredContent'] === undefined) return result
    const isWrapped = this.#wrapped.get(String(params?.['name']))
    const shape = isWrapped === undefined ? undefined : { isWrapped }
    return { ...result, structuredContent: objectValue(result['structuredContent'], shape) }
  }

  /** Reads all tools again. Returns false if that failed. */
  async refresh(signal: AbortSignal): Promise<boolean> {
    let cursor: string | undefined
    for (let page = 0; page < MAX_PAGES; page++) {
      const result = await this.#options.readPage(cursor, signal)
      if (result === undefined) return false
      this.#list(result)
      const next = result['nextCursor']
      if (typeof next !== 'string') return true
      cursor = next
    }
    return true
  }

  #list(result: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
    if (!Array.isArray(result['tools'])) return result
    const { tools, shapes, leftOut } = bridgeTools(result['tools'])
    let isNew = false
    for (const [name, { headers, isWrapped }] of shapes) {
      this.#wrapped.set(name, isWrapped)
      const before = this.#headers.get(name) ?? []
      if (JSON.stringify(before) !== JSON.stringify(headers)) isNew = true
      this.#headers.set(name, headers)
    }
    if (isNew) this.#options.onLearned(this.#withHeaders())
    for (const { name, reason } of leftOut) {
      if (this.#leftOut.has(name)) continue
      this.#leftOut.add(name)
      this.#options.onLeftOut(name, reason)
    }
    return { ...result, tools }
  }

  #withHeaders(): ToolHeaderMap {
    return Object.fromEntries([...this.#headers].filter(([, headers]) => headers.length > 0))
  }
}

/** Data of a tool that is needed to call it. */
export interface ToolShape {
  readonly headers: readonly ToolHeader[]
  /** The output is wrapped as the property `result` of an object. */
  readonly isWrapped: boolean
}

export interface BridgedTools {
  /** The tools for a client of SDK v1. */
  readonly tools: readonly unknown[]
  readonly shapes: ReadonlyMap<string, ToolShape>
  /** Tools that were left out, and the reasons. */
  readonly leftOut: readonly { readonly name: string; readonly reason: string }[]
}

/** Deeper schemas would exhaust the stack of recursive readers. */
const MAX_DEPTH = 256

/**
 * Converts the tools of one `tools/list` page. Leaves out tools with an invalid header annotation. Changes
 * schemas for which SDK v1 would reject the whole list.
 */
export function bridgeTools(tools: readonly unknown[]): BridgedTools {
  const kept: unknown[] = []
  const shapes = new Map<string, ToolShape>()
  const leftOut: { name: string; reason: string }[] = []
  for (const tool of tools) {
    if (!isRecord(tool) || typeof tool['name'] !== 'string') {
      kept.push(tool)
      continue
    }
    const { name, inputSchema, outputSchema } = tool
    const compiled = isDeeperThan(tool, MAX_DEPTH)
      ? { invalid: `its schema is nested more than ${MAX_DEPTH} levels deep` }
      : compileToolHeaders(inputSchema)
    if ('invalid' in compiled) {
      leftOut.push({ name, reason: compiled.invalid })
      continue
    }
    const isWrapped = outputSchema !== undefined && !isObjectSchema(outputSchema)
    shapes.set(name, { headers: compiled.headers, isWrapped })
    kept.push({
      ...tool,
      ...(inputSchema === undefined ? {} : { inputSchema: withoutBooleans(inputSchema) }),
      ...(outputSchema === undefined ? {} : { outputSchema: objectSchema(outputSchema) }),
    })
  }
  return { tools: kept, shapes, leftOut }
}

/** SDK v1 allows only objects: another output becomes the property `result` of an object. */
export function objectSchema(schema: unknown): unknown {
  const plain = withoutBooleans(schema)
  if (isObjectSchema(plain)) return plain
  return {
    type: 'object',
    properties: { result: objectForm(rebased(plain)) },
    required: ['result'],
    additionalProperties: false,
  }
}

/** Converts a value to fit `objectSchema`. If the schema of the tool is unknown, an object stays unchanged. */
export function objectValue(
  value: unknown,
  shape: Pick<ToolShape, 'isWrapped'> | undefined,
): unknown {
  return shape?.isWrapped === true || !isRecord(value) ? { result: value } : value
}

function isObjectSchema(schema: unknown): boolean {
  return isRecord(schema) && schema['type'] === 'object'
}

/** SDK v1 does not accept the schemas `true` and `false`: `{}` and `{ not: {} }` mean the same. */
function withoutBooleans(schema: unknown): unknown {
  if (!isRecord(schema)) return schema
  const { properties } = schema
  if (!isRecord(properties)) return schema
  return {
    ...schema,
    properties: Object.fromEntries(
      Object.entries(properties).map(([key, property]) => [
        key,
        withoutBooleans(objectForm(property)),
      ]),
    ),
  }
}

function objectForm(schema: unknown): unknown {
  if (typeof schema !== 'boolean') return schema
  return schema ? {} : { not: {} }
}

/** Moves local references down by one property, because they start at the root. */
function rebased(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(rebased)
  if (!isRecord(schema)) return schema
  if (typeof schema['$id'] === 'string') return schema // its references start at its own root
  return mapped(schema, (part, keyword) => {
    if (keyword === '$ref' && typeof part === 'string' && (part === '#' || part.startsWith('#/'))) {
      return `#/properties/result${part.slice(1)}`
    }
    if (isDataKeyword(keyword)) return part
    return isSchemaMap(keyword) && isRecord(part) ? mapped(part, rebased) : rebased(part)
  })
}

function mapped(
  object: Readonly<Record<string, unknown>>,
  change: (part: unknown, key: string) => unknown,
): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).map(([key, part]) => [key, change(part, key)]))
}

/** Not recursive, because a deep value would exhaust the stack. */
function isDeeperThan(value: unknown, depth: number): boolean {
  let level: unknown[] = [value]
  for (let at = 0; level.length > 0; at++) {
    if (at > depth) return true
    level = level.flatMap((part) =>
      typeof part === 'object' && part !== null ? Object.values(part) : [],
    )
  }
  return false
}

export type CompiledToolHeaders =
  | { readonly headers: readonly ToolHeader[] }
  /** The tool must not be offered (2026-07-28, server/tools, `x-mcp-header`). */
  | { readonly invalid: string }

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const TYPES = new Set(['string', 'integer', 'boolean'])

/**
 * Finds the arguments of a tool that are sent as `Mcp-Param-*` headers, from annotations in its input schema.
 */
export function compileToolHeaders(inputSchema: unknown): CompiledToolHeaders {
  const headers: ToolHeader[] = []
  const names = new Set<string>()
  const invalid = visit(inputSchema, { path: [], isReachable: true }, (name, path, schema) => {
    if (typeof name !== 'string' || !TOKEN.test(name)) return 'is not a header token'
    if (!TYPES.has(String(schema['type']))) return 'is not on a string, integer or boolean'
    if (path === undefined) return 'is reached through other keywords than properties'
    const lower = name.toLowerCase()
    if (names.has(lower)) return 'stands twice'
    names.add(lower)
    headers.push({ name: `mcp-param-${lower}`, path })
    return undefined
  })
  return invalid === undefined ? { headers } : { invalid }
}

/** Headers of one call, as a flat list. Absent and null arguments have none. */
export function toolHeaderList(headers: readonly ToolHeader[], args: unknown): string[] {
  return headers.flatMap(({ name, path }) => {
    const value = path.reduce<unknown>(
      (at, key) => (isRecord(at) && Object.hasOwn(at, key) ? at[key] : undefined),
      args,
    )
    const isScalar =
      typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    return isScalar ? [name, encodeHeaderValue(String(value))] : []
  })
}

interface Place {
  readonly path: readonly string[]
  /** Reached from the root through `properties` only. */
  readonly isReachable: boolean
}

type Check = (
  name: unknown,
  path: readonly string[] | undefined,
  schema: Readonly<Record<string, unknown>>,
) => string | undefined

/** Checks every annotation in a schema, at any depth. Returns the first error. */
function visit(schema: unknown, place: Place, check: Check): string | undefined {
  if (Array.isArray(schema)) return first(schema, (part) => visit(part, beyond(place), check))
  if (!isRecord(schema)) return undefined
  if (Object.hasOwn(schema, 'x-mcp-header')) {
    const name = schema['x-mcp-header']
    const why = check(
      name,
      place.isReachable && place.path.length > 0 ? place.path : undefined,
      schema,
    )
    if (why !== undefined) return `x-mcp-header ${JSON.stringify(name)} ${why}`
  }
  return first(Object.entries(schema), ([keyword, part]) => {
    if (keyword === 'properties' && isRecord(part)) {
      return first(Object.entries(part), ([key, property]) =>
        visit(property, { ...place, path: [...place.path, key] }, check),
      )
    }
    if (isDataKeyword(keyword)) return undefined
    if (isSchemaMap(keyword) && isRecord(part)) {
      return first(Object.values(part), (one) => visit(one, beyond(place), check))
    }
    return visit(part, beyond(place), check)
  })
}

function beyond({ path }: Place): Place {
  return { path, isReachable: false }
}

function first<T>(items: readonly T[], find: (item: T) => string | undefined): string | undefined {
  for (const item of items) {
    const found = find(item)
    if (found !== undefined) return found
  }
  return undefined
}

/** Keywords of JSON Schema whose values are data, not schemas. */
const DATA = new Set(['const', 'enum', 'default', 'examples'])

/** Keywords whose values map arbitrary names to schemas. */
const MAPS = new Set([
  'properties',
  'patternProperties',
  'dependentSchemas',
  '$defs',
  'definitions',
])

function isDataKeyword(keyword: string): boolean {
  return DATA.has(keyword)
}

function isSchemaMap(keyword: string): boolean {
  return MAPS.has(keyword)
}

// Visible ASCII and inner spaces. Other characters may be changed in transit.
const PLAIN = /^[\x21-\x7E](?:[\x20-\x7E]*[\x21-\x7E])?$/
const SENTINEL = /^=\?base64\?.*\?=$/i

/**
 * Encodes a value for `Mcp-Name` and `Mcp-Param-*` (2026-07-28, streamable-http, custom headers): in base64 if
 * it is empty, not plain ASCII, or looks encoded.
 */
export function encodeHeaderValue(text: string): string {
  if (PLAIN.test(text) && !SENTINEL.test(text)) return text
  return `=?base64?${Buffer.from(text, 'utf8').toString('base64')}?=`
}
