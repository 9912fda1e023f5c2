import { isRecord, LEFT_OUT_META_KEY, mapSubschemas } from '@x/internal'
import { TOKEN } from '../headers.ts'
import type { JsonRpcRequest } from '../json-rpc.ts'
import type { ToolHeader } from '../session-record.ts'
import type { ModernServer } from './modern-server.ts'

const MAX_PAGES = 64
const NO_HEADERS: readonly string[] = []

/** Knows which tool arguments are sent as headers, and converts tool lists and results for SDK v1. */
export class ToolCatalog {
  readonly #server: ModernServer
  readonly #headers: Map<string, readonly ToolHeader[]>
  /** Listed tools whose output is wrapped in an object. */
  readonly #wrapped = new Map<string, boolean>()
  readonly #leftOut = new Set<string>()

  constructor(server: ModernServer) {
    this.#server = server
    this.#headers = new Map(Object.entries(server.known.toolHeaders ?? {}))
  }

  /** Returns the headers of a tool call, as a flat list. Other requests have none. */
  headersFor({ method, params }: JsonRpcRequest): readonly string[] {
    if (method !== 'tools/call') return NO_HEADERS
    const headers = this.#headers.get(String(params?.['name'])) ?? []
    return headers.length === 0 ? NO_HEADERS : toolHeaderList(headers, params?.['arguments'])
  }

  /** Converts the result of a request for a client of SDK v1. */
  bridge(
    { method, params }: Pick<JsonRpcRequest, 'method' | 'params'>,
    result: Readonly<Record<string, unknown>>,
  ): Readonly<Record<string, unknown>> {
    if (method === 'tools/list') return this.#list(result)
    if (method !== 'tools/call' || result['structuredContent'] === undefined) return result
    const isWrapped = this.#wrapped.get(String(params?.['name']))
    const { structuredContent: value, ...rest } = result
    if (value === null && isWrapped !== true) return rest
    return { ...rest, structuredContent: objectValue(value, isWrapped) }
  }

  /** Reads all tools again. Returns false if that failed. */
  async refresh(signal: AbortSignal): Promise<boolean> {
    let cursor: unknown
    for (let page = 0; page < MAX_PAGES; page++) {
      const params = typeof cursor === 'string' ? { cursor } : {}
      const outcome = await this.#server.ask('tools/list', params, { signal })
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
    const { keeper, http, report } = this.#server.parts
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
      void keeper.learned({ toolHeaders: Object.fromEntries(withHeaders) })
    }
    const { display: url } = http.url
    for (const { name, reason } of leftOut) {
      if (this.#leftOut.has(name)) continue
      this.#leftOut.add(name)
      const message = `The tool ${JSON.stringify(name)} of ${url} is left out: ${reason}`
      report(http.error('TOOL_LEFT_OUT', message))
    }
    const { _meta: meta } = result
    const note = leftOut.length > 0 && {
      _meta: { ...(isRecord(meta) && meta), [LEFT_OUT_META_KEY]: leftOut },
    }
    return { ...result, tools, ...note }
  }
}

interface ToolShape {
  readonly headers: readonly ToolHeader[]
  /** The output is wrapped as the property `result` of an object. */
  readonly isWrapped: boolean
}

export interface BridgedTools {
  readonly tools: readonly unknown[]
  readonly shapes: ReadonlyMap<string, ToolShape>
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

/**
 * Converts a value to fit `objectSchema`. If the schema of the tool is unknown, an object stays unchanged. PHP sends `[]`
 * for an empty object.
 */
export function objectValue(value: unknown, isWrapped: boolean | undefined): unknown {
  if (isWrapped === false && Array.isArray(value) && value.length === 0) return {}
  return isWrapped === true || !isRecord(value) ? { result: value } : value
}

function isObjectSchema(schema: unknown): boolean {
  return isRecord(schema) && schema['type'] === 'object'
}

/** SDK v1 does not accept the schemas `true` and `false` of properties: `{}` and `{ not: {} }` mean the same. */
function withoutBooleans(schema: unknown): unknown {
  if (!isRecord(schema)) return schema
  return mapSubschemas(schema, (inner, [keyword]) =>
    keyword === 'properties' ? withoutBooleans(objectForm(inner)) : inner,
  )
}

function objectForm(schema: unknown): unknown {
  if (typeof schema !== 'boolean') return schema
  return schema ? {} : { not: {} }
}

/** Moves local references down by one property, because they start at the root. */
function rebased(schema: unknown): unknown {
  // The references of a schema with an id start at its own root.
  if (!isRecord(schema) || typeof schema['$id'] === 'string') return schema
  const { $ref } = schema
  const isLocal = typeof $ref === 'string' && ($ref === '#' || $ref.startsWith('#/'))
  const moved = isLocal ? { $ref: `#/properties/result${$ref.slice(1)}` } : {}
  return { ...mapSubschemas(schema, rebased), ...moved }
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

const TYPES = new Set(['string', 'integer', 'boolean'])

/**
 * Finds the arguments of a tool that are sent as `Mcp-Param-*` headers, from annotations in its input schema.
 */
export function compileToolHeaders(inputSchema: unknown): CompiledToolHeaders {
  const headers = new Map<string, ToolHeader>()
  let invalid: string | undefined
  /** `path` is undefined if another keyword than `properties` leads to the schema. */
  const visit = (schema: unknown, path: readonly string[] | undefined): void => {
    if (!isRecord(schema)) return
    if (Object.hasOwn(schema, 'x-mcp-header')) {
      const annotation = schema['x-mcp-header']
      const name = `mcp-param-${String(annotation).toLowerCase()}`
      const why = whyInvalid(annotation, schema['type'], path)
      const problem = why ?? (headers.has(name) ? 'stands twice' : undefined)
      if (problem !== undefined) {
        invalid ??= `x-mcp-header ${JSON.stringify(annotation)} ${problem}`
      }
      headers.set(name, { name, path: path ?? [] })
    }
    mapSubschemas(schema, (inner, [keyword, name = '']) => {
      visit(inner, keyword === 'properties' && path ? [...path, name] : undefined)
    })
  }
  visit(inputSchema, [])
  return invalid === undefined ? { headers: [...headers.values()] } : { invalid }
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
