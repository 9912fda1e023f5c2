import { isRecord } from '@x/internal'
import type { JsonRpcRequest } from '../json-rpc.ts'
import type { ToolHeader } from '../session-record.ts'
import { TransportError } from '../transport-error.ts'
import type { ModernProtocol, ModernProtocolOptions } from './modern-protocol.ts'

const MAX_PAGES = 64

/** Knows which tool arguments are sent as headers, and converts tool lists and results for SDK v1. */
export class ToolCatalog {
  readonly #protocol: ModernProtocol
  readonly #options: ModernProtocolOptions
  readonly #headers: Map<string, readonly ToolHeader[]>
  /** Listed tools whose output is wrapped in an object. */
  readonly #wrapped = new Map<string, boolean>()
  readonly #leftOut = new Set<string>()

  constructor(protocol: ModernProtocol, options: ModernProtocolOptions) {
    this.#protocol = protocol
    this.#options = options
    this.#headers = new Map(Object.entries(options.toolHeaders ?? {}))
  }

  /** Returns the headers of a tool call, as a flat list. Other requests have none. */
  headersFor({ method, params }: JsonRpcRequest): string[] {
    const headers =
      method === 'tools/call' ? this.#headers.get(String(params?.['name'])) : undefined
    return headers === undefined ? [] : toolHeaderList(headers, params?.['arguments'])
  }

  /** Converts the result of a request for a client of SDK v1. */
  bridge(
    { method, params }: Pick<JsonRpcRequest, 'method' | 'params'>,
    result: Readonly<Record<string, unknown>>,
  ): Readonly<Record<string, unknown>> {
    if (method === 'tools/list') return this.#list(result)
    if (method !== 'tools/call' || result['structuredContent'] === undefined) return result
    const isWrapped = this.#wrapped.get(String(params?.['name']))
    return { ...result, structuredContent: objectValue(result['structuredContent'], isWrapped) }
  }

  /** Reads all tools again. Returns false if that failed. */
  async refresh(signal: AbortSignal): Promise<boolean> {
    let cursor: unknown
    for (let page = 0; page < MAX_PAGES; page++) {
      const params = typeof cursor === 'string' ? { cursor } : {}
      const outcome = await this.#protocol.ask('tools/list', params, { signal })
      if (outcome.kind !== 'answered' || !('result' in outcome.answer)) return false
      const { result } = outcome.answer
      this.#list(result)
      cursor = result['nextCursor']
      if (typeof cursor !== 'string') break
    }
    return true
  }

  #list(result: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
    if (!Array.isArray(result['tools'])) return result
    const { keeper, http, report } = this.#options
    const { tools, shapes, leftOut } = bridgeTools(result['tools'])
    let isNew = false
    for (const [name, { headers, isWrapped }] of shapes) {
      this.#wrapped.set(name, isWrapped)
      const before = this.#headers.get(name) ?? []
      if (JSON.stringify(before) !== JSON.stringify(headers)) isNew = true
      this.#headers.set(name, headers)
    }
    if (isNew) {
      const withHeaders = [...this.#headers].filter(([, headers]) => headers.length > 0)
      void keeper.learned(Object.fromEntries(withHeaders))
    }
    const { display: url } = http.url
    for (const { name, reason } of leftOut) {
      if (this.#leftOut.has(name)) continue
      this.#leftOut.add(name)
      const message = `The tool ${JSON.stringify(name)} of ${url} is left out: ${reason}`
      report(new TransportError('UNEXPECTED_RESPONSE', message, { url }))
    }
    return { ...result, tools }
  }
}

/** Data of a tool that is needed to call it. */
interface ToolShape {
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
export function objectValue(value: unknown, isWrapped: boolean | undefined): unknown {
  return isWrapped === true || !isRecord(value) ? { result: value } : value
}

function isObjectSchema(schema: unknown): boolean {
  return isRecord(schema) && schema['type'] === 'object'
}

/** SDK v1 does not accept the schemas `true` and `false`: `{}` and `{ not: {} }` mean the same. */
function withoutBooleans(schema: unknown): unknown {
  if (!isRecord(schema) || !isRecord(schema['properties'])) return schema
  const properties = mapped(schema['properties'], (property) =>
    withoutBooleans(objectForm(property)),
  )
  return { ...schema, properties }
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
    if (DATA_KEYWORDS.has(keyword)) return part
    return MAP_KEYWORDS.has(keyword) && isRecord(part) ? mapped(part, rebased) : rebased(part)
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
  const headers = new Map<string, ToolHeader>()
  for (const { schema, path } of subschemas(inputSchema, [])) {
    if (!Object.hasOwn(schema, 'x-mcp-header')) continue
    const annotation = schema['x-mcp-header']
    const name = `mcp-param-${String(annotation).toLowerCase()}`
    const why = whyInvalid(annotation, schema['type'], path)
    const invalid = why ?? (headers.has(name) ? 'stands twice' : undefined)
    if (invalid !== undefined) {
      return { invalid: `x-mcp-header ${JSON.stringify(annotation)} ${invalid}` }
    }
    headers.set(name, { name, path: path ?? [] })
  }
  return { headers: [...headers.values()] }
}

function whyInvalid(
  annotation: unknown,
  type: unknown,
  path: readonly string[] | undefined,
): string | undefined {
  if (typeof annotation !== 'string' || !TOKEN.test(annotation)) return 'is not a header token'
  if (!TYPES.has(String(type))) return 'is not on a string, integer or boolean'
  return path?.length ? undefined : 'is reached through other keywords than properties'
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

interface Subschema {
  readonly schema: Readonly<Record<string, unknown>>
  /** Property names from the root. Undefined if another keyword than `properties` leads to the schema. */
  readonly path: readonly string[] | undefined
}

/** Yields a schema and all schemas in it, at any depth. */
function* subschemas(schema: unknown, path: Subschema['path']): Generator<Subschema> {
  if (Array.isArray(schema)) for (const part of schema) yield* subschemas(part, undefined)
  if (!isRecord(schema)) return
  yield { schema, path }
  for (const [keyword, part] of Object.entries(schema)) {
    if (DATA_KEYWORDS.has(keyword)) continue
    if (!MAP_KEYWORDS.has(keyword) || !isRecord(part)) {
      yield* subschemas(part, undefined)
      continue
    }
    for (const [key, one] of Object.entries(part)) {
      yield* subschemas(one, keyword === 'properties' ? path && [...path, key] : undefined)
    }
  }
}

/** Keywords of JSON Schema whose values are data, not schemas. */
const DATA_KEYWORDS = new Set(['const', 'enum', 'default', 'examples'])

/** Keywords whose values map arbitrary names to schemas. */
const MAP_KEYWORDS = new Set([
  'properties',
  'patternProperties',
  'dependentSchemas',
  '$defs',
  'definitions',
])

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
