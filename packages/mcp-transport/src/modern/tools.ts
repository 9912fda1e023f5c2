import { isRecord } from '@x/internal'
import type { JsonRpcRequest } from '../json-rpc.ts'
import type { ToolHeader, ToolHeaderMap } from '../session-record.ts'

export interface ToolCatalogOptions {
  /** From the session record. */
  readonly known?: ToolHeaderMap | undefined
  /** Told when tools with headers were learned, with all of them. */
  readonly onLearned: (headers: ToolHeaderMap) => void
  /** One page of `tools/list`, as the server gives it; undefined if it could not be had. */
  readonly readPage: (
    cursor: string | undefined,
    signal: AbortSignal,
  ) => Promise<Readonly<Record<string, unknown>> | undefined>
  /** Told of each tool that is left out, once. */
  readonly onLeftOut: (name: string, reason: string) => void
}

const MAX_PAGES = 64

/** What the wire knows of the server's tools: which arguments become headers. */
export class ToolCatalog {
  readonly #options: ToolCatalogOptions
  readonly #headers: Map<string, readonly ToolHeader[]>
  /** Tools that were listed here, whose output is shown in another form. */
  readonly #wrapped = new Map<string, boolean>()
  readonly #leftOut = new Set<string>()

  constructor(options: ToolCatalogOptions) {
    this.#options = options
    this.#headers = new Map(Object.entries(options.known ?? {}))
  }

  getHeaders(tool: unknown): readonly ToolHeader[] {
    return (typeof tool === 'string' ? this.#headers.get(tool) : undefined) ?? []
  }

  /** The result of a request as a client of SDK v1 can read it. */
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

  /** Reads all tools anew. Returns false if that was not possible. */
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

/** What the modern wire must remember of a tool in order to call it. */
export interface ToolShape {
  readonly headers: readonly ToolHeader[]
  /** Its output is shown as the property `result` of an object. */
  readonly isWrapped: boolean
}

export interface BridgedTools {
  /** The tools as a client of SDK v1 can read them. */
  readonly tools: readonly unknown[]
  readonly shapes: ReadonlyMap<string, ToolShape>
  /** Tools that were left out, and why. */
  readonly leftOut: readonly { readonly name: string; readonly reason: string }[]
}

/** What nests deeper is no schema that anybody wrote; it would exhaust the stack of every reader. */
const MAX_DEPTH = 256

/**
 * The tools of one `tools/list` page. A tool with an invalid header annotation must be left out; the
 * others stay. Schemas that SDK v1 would reject, and with them the whole list, are put into its form.
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
      ? { invalid: `it is nested more than ${MAX_DEPTH} levels deep` }
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

/** SDK v1 knows objects only: any other output becomes the one property `result` of an object. */
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

/**
 * The value that goes with `objectSchema`. Where the tool's schema is not known here, an object is taken
 * for what it looks like.
 */
export function objectValue(
  value: unknown,
  shape: Pick<ToolShape, 'isWrapped'> | undefined,
): unknown {
  return shape?.isWrapped === true || !isRecord(value) ? { result: value } : value
}

function isObjectSchema(schema: unknown): boolean {
  return isRecord(schema) && schema['type'] === 'object'
}

/** `true` and `false` are schemas, but not in SDK v1: `{}` and `{ not: {} }` say the same. */
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

/** Local references point from the root, which has moved down by one property. */
function rebased(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(rebased)
  if (!isRecord(schema)) return schema
  if (typeof schema['$id'] === 'string') return schema // a root of its own: nothing has moved there
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

/** Without recursion, because it is about what recursion cannot do. */
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

/** Which arguments of a tool go into `Mcp-Param-*` headers, by the annotations in its input schema. */
export function compileToolHeaders(inputSchema: unknown): CompiledToolHeaders {
  const headers: ToolHeader[] = []
  const names = new Set<string>()
  const invalid = visit(inputSchema, { path: [], isReachable: true }, (name, path, schema) => {
    if (typeof name !== 'string' || !TOKEN.test(name)) return 'is not a header token'
    if (!TYPES.has(String(schema['type']))) return 'is not on a string, integer or boolean'
    if (path === undefined) return 'is not reached through properties alone'
    const lower = name.toLowerCase()
    if (names.has(lower)) return 'stands twice'
    names.add(lower)
    headers.push({ name: `mcp-param-${lower}`, path })
    return undefined
  })
  return invalid === undefined ? { headers } : { invalid }
}

/** The headers of one call, as a flat list. What is absent or null has none. */
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

/** Looks at every annotation in a schema, wherever it stands; returns the first objection. */
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

/** Keywords of JSON Schema whose values are data, whatever they look like. */
const DATA = new Set(['const', 'enum', 'default', 'examples'])

/** Keywords whose values have names of the author's choice as keys, and schemas as values. */
const MAPS = new Set([
  'properties',
  'patternProperties',
  'dependentSchemas',
  '$defs',
  'definitions',
])

/** Whether what stands under a keyword is data, and no schema. */
function isDataKeyword(keyword: string): boolean {
  return DATA.has(keyword)
}

/** Whether the keys under a keyword are names, and no keywords. */
function isSchemaMap(keyword: string): boolean {
  return MAPS.has(keyword)
}

// Visible ASCII and inner spaces; anything else would change on the way.
const PLAIN = /^[\x21-\x7E](?:[\x20-\x7E]*[\x21-\x7E])?$/
const SENTINEL = /^=\?base64\?.*\?=$/i

/**
 * A value as it may stand in `Mcp-Name` and `Mcp-Param-*` (2026-07-28, streamable-http, custom headers):
 * base64 of its UTF-8 where it is empty, is not plain ASCII, or looks encoded already.
 */
export function encodeHeaderValue(text: string): string {
  if (PLAIN.test(text) && !SENTINEL.test(text)) return text
  return `=?base64?${Buffer.from(text, 'utf8').toString('base64')}?=`
}
