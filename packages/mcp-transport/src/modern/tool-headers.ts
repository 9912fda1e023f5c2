import { isRecord } from '@x/internal'
import { headerValueFrom } from './header-value.ts'
import { isDataKeyword, isSchemaMap } from './schema-keywords.ts'

/** One argument of a tool that is also sent as a header. */
export interface ToolHeader {
  /** `mcp-param-region` */
  readonly name: string
  /** Property names, from the arguments down. */
  readonly path: readonly string[]
}

/** By tool name. */
export type ToolHeaderMap = Readonly<Record<string, readonly ToolHeader[]>>

export function isToolHeaderMap(value: unknown): value is ToolHeaderMap {
  return (
    isRecord(value) &&
    Object.values(value).every((list) => Array.isArray(list) && list.every(isToolHeader))
  )
}

function isToolHeader(value: unknown): value is ToolHeader {
  return (
    isRecord(value) &&
    typeof value['name'] === 'string' &&
    PARAM_NAME.test(value['name']) &&
    Array.isArray(value['path']) &&
    value['path'].every((key) => typeof key === 'string')
  )
}

export type CompiledToolHeaders =
  | { readonly headers: readonly ToolHeader[] }
  /** The tool must not be offered (2026-07-28, server/tools, `x-mcp-header`). */
  | { readonly invalid: string }

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const PARAM_NAME = /^mcp-param-[!#$%&'*+.^_`|~0-9a-z-]+$/
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
    return isScalar ? [name, headerValueFrom(String(value))] : []
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
