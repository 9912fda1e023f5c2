import { isRecord } from '@x/internal'
import { isDataKeyword, isSchemaMap } from './schema-keywords.ts'
import { compileToolHeaders } from './tool-headers.ts'
import type { ToolHeader } from './tool-headers.ts'

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
