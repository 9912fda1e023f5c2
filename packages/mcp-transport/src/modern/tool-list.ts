import { isObject } from '../json-rpc.ts'
import { compileToolHeaders } from './tool-headers.ts'
import type { ToolHeader } from './tool-headers.ts'

/** What the modern wire must remember of a tool in order to call it. */
export interface ToolShape {
  readonly headers: readonly ToolHeader[]
}

export interface BridgedTools {
  /** The tools as a client of SDK v1 can read them. */
  readonly tools: readonly unknown[]
  readonly shapes: ReadonlyMap<string, ToolShape>
  /** Tools that were left out, and why. */
  readonly leftOut: readonly { readonly name: string; readonly reason: string }[]
}

/**
 * The tools of one `tools/list` page. A tool with an invalid header annotation must be left out; the
 * others stay. Schemas that SDK v1 would reject, and with them the whole list, are put into its form.
 */
export function bridgeTools(tools: readonly unknown[]): BridgedTools {
  const kept: unknown[] = []
  const shapes = new Map<string, ToolShape>()
  const leftOut: { name: string; reason: string }[] = []
  for (const tool of tools) {
    if (!isObject(tool) || typeof tool['name'] !== 'string') {
      kept.push(tool)
      continue
    }
    const { name, inputSchema, outputSchema } = tool
    const compiled = compileToolHeaders(inputSchema)
    if ('invalid' in compiled) {
      leftOut.push({ name, reason: compiled.invalid })
      continue
    }
    shapes.set(name, { headers: compiled.headers })
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
  if (isObject(plain) && plain['type'] === 'object') return plain
  return {
    type: 'object',
    properties: { result: rebased(plain) },
    required: ['result'],
    additionalProperties: false,
  }
}

/** The value that goes with `objectSchema`. */
export function objectValue(value: unknown): unknown {
  return isObject(value) ? value : { result: value }
}

/** `true` and `false` are schemas, but not in SDK v1: `{}` and `{ not: {} }` say the same. */
function withoutBooleans(schema: unknown): unknown {
  if (!isObject(schema)) return schema
  const { properties } = schema
  if (!isObject(properties)) return schema
  return {
    ...schema,
    properties: Object.fromEntries(
      Object.entries(properties).map(([key, property]) => {
        if (typeof property === 'boolean') return [key, property ? {} : { not: {} }]
        return [key, withoutBooleans(property)]
      }),
    ),
  }
}

/** Local references point from the root, which has moved down by one property. */
function rebased(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(rebased)
  if (!isObject(schema)) return schema
  return Object.fromEntries(
    Object.entries(schema).map(([key, part]) => {
      if (key === '$ref' && typeof part === 'string' && (part === '#' || part.startsWith('#/'))) {
        return [key, `#/properties/result${part.slice(1)}`]
      }
      return [key, rebased(part)]
    }),
  )
}
