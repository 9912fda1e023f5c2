import { isRecord, mapSubschemas } from '@x/internal'
import type { JsonSchema } from '../tool-source.ts'

/** Argument names that Anthropic accepts, also on Bedrock. It refuses all tools for another one. */
const ACCEPTED = /^[a-zA-Z0-9_.-]{1,64}$/

const MAX_LENGTH = 64

interface ShownNames {
  readonly schema: JsonSchema
  /** Names on the server, by the names that the model sees. Only those that differ. @default none */
  readonly names?: ReadonlyMap<string, string> | undefined
}

/**
 * Gives the arguments of a tool names that all providers accept: `$filter` becomes `filter`, and `page[size]` becomes
 * `page_size` (vantage-mcp-server#43). The description begins with the name on the server. Only names of arguments
 * are checked by providers, and not those of fields inside of them.
 */
export function withShownNames(schema: JsonSchema): ShownNames {
  const { properties } = schema
  const names = new Map<string, string>()
  if (!isRecord(properties)) return { schema }
  const taken = new Set(Object.keys(properties).filter((name) => ACCEPTED.test(name)))
  if (taken.size === Object.keys(properties).length) return { schema }
  const shown = new Map<unknown, string>()
  // Their order may differ in the next list, which must not exchange two arguments of a stored call.
  for (const name of Object.keys(properties).toSorted()) {
    if (ACCEPTED.test(name)) continue
    const accepted = freeName(name, taken)
    taken.add(accepted)
    shown.set(name, accepted)
    names.set(accepted, name)
  }
  const described = Object.entries(properties).map(([name, inner]): [string, unknown] => [
    name,
    shown.has(name) && isRecord(inner) ? describedAs(name, inner) : inner,
  ])
  const whole = { ...schema, properties: Object.fromEntries(described) }
  return { schema: renamed(whole, (name) => shown.get(name) ?? name), names }
}

/** Keywords of conditions for the arguments. Other combinations at the root are no longer there. */
const CONDITIONS: ReadonlySet<unknown> = new Set(
  'allOf anyOf oneOf not if then else dependentSchemas'.split(' '),
)

function renamed(schema: JsonSchema, nameOf: (name: unknown) => unknown): Record<string, unknown> {
  const list = (names: unknown): unknown => (Array.isArray(names) ? names.map(nameOf) : names)
  const inner = mapSubschemas(schema, (one, [keyword]) =>
    CONDITIONS.has(keyword) && isRecord(one) ? renamed(one, nameOf) : one,
  )
  const entries = Object.entries(inner).map(([keyword, value]): [string, unknown] => {
    if (keyword === 'required') return [keyword, list(value)]
    if (!BY_NAME.has(keyword) || !isRecord(value)) return [keyword, value]
    const fields = Object.entries(value).map(([name, field]) => [nameOf(name), list(field)])
    return [keyword, Object.fromEntries(fields)]
  })
  return Object.fromEntries(entries)
}

/** Keywords with the names of arguments. */
const BY_NAME: ReadonlySet<string> = new Set(
  'properties dependentRequired dependentSchemas'.split(' '),
)

/** Returns arguments with the names that the server has for them. The same object if all have these. */
export function withServerNames(args: unknown, names: ShownNames['names']): unknown {
  if (names === undefined || !isRecord(args)) return args
  if (!Object.keys(args).some((name) => names.has(name))) return args
  const entries = Object.entries(args).map(([name, value]): [string, unknown] => {
    const own = names.get(name)
    return [own === undefined || Object.hasOwn(args, own) ? name : own, value]
  })
  return Object.fromEntries(entries)
}

function freeName(name: string, taken: ReadonlySet<string>): string {
  const cut = name
    .replaceAll(/[^a-zA-Z0-9_.-]+/g, '_')
    .replaceAll(/^_+|_+$/g, '')
    .slice(0, MAX_LENGTH - 4)
  const wanted = cut === '' ? 'argument' : cut
  let free = wanted
  for (let number = 2; taken.has(free); number++) free = `${wanted}_${number}`
  return free
}

function describedAs(name: string, schema: JsonSchema): JsonSchema {
  const { description } = schema
  return {
    ...schema,
    description: typeof description === 'string' ? `${name}: ${description}` : name,
  }
}
