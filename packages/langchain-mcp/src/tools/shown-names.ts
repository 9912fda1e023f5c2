import { isRecord } from '@x/internal'
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
  const { properties, required, dependentRequired } = schema
  const names = new Map<string, string>()
  if (!isRecord(properties)) return { schema }
  const taken = new Set(Object.keys(properties).filter((name) => ACCEPTED.test(name)))
  if (taken.size === Object.keys(properties).length) return { schema }
  const shown = new Map<unknown, string>()
  for (const name of Object.keys(properties)) {
    if (ACCEPTED.test(name)) continue
    const accepted = freeName(name, taken)
    taken.add(accepted)
    shown.set(name, accepted)
    names.set(accepted, name)
  }
  const renamed = (name: unknown): unknown => shown.get(name) ?? name
  const fields = Object.entries(properties).map(([name, inner]): [string, unknown] => [
    shown.get(name) ?? name,
    shown.has(name) && isRecord(inner) ? describedAs(name, inner) : inner,
  ])
  const dependent = Object.entries(isRecord(dependentRequired) ? dependentRequired : {})
  return {
    schema: {
      ...schema,
      properties: Object.fromEntries(fields),
      ...(Array.isArray(required) && { required: required.map(renamed) }),
      ...(dependent.length > 0 && {
        dependentRequired: Object.fromEntries(
          dependent.map(([name, others]) => [
            shown.get(name) ?? name,
            Array.isArray(others) ? others.map(renamed) : others,
          ]),
        ),
      }),
    },
    names,
  }
}

/** Returns arguments with the names that the server has for them. */
export function withServerNames(args: unknown, names: ShownNames['names']): unknown {
  if (names === undefined || !isRecord(args)) return args
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
