import type { PerServerOptions } from '../client-options.ts'
import type { McpServerConfig } from '../server-config.ts'

/**
 * Equal for configs and options that say the same, in whatever order; never for others. What is no plain
 * data, like a header function or a provider of tokens, is equal to itself alone. Holds secrets where the
 * config does: for keys only.
 */
export function serverKey(config: McpServerConfig, own: PerServerOptions = {}): string {
  const { authProvider, dispatcher, ...rest } = own
  const things = [authProvider, dispatcher].map((thing) =>
    thing === undefined ? 0 : identityOf(thing),
  )
  return JSON.stringify([canonical(config), canonical(rest), ...things])
}

/** Tagged, so that no two kinds of values look the same. */
function canonical(value: unknown): unknown {
  if (value instanceof URL) return ['text', value.href]
  if (typeof value === 'string') return ['text', value]
  if (Array.isArray(value)) return ['list', ...value.map((part: unknown) => canonical(part))]
  if (!isObject(value)) return ['value', String(value)]
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return ['thing', identityOf(value)]
  const given = Object.entries(value).filter(([, part]) => part !== undefined)
  const sorted = given.toSorted(([a], [b]) => (a < b ? -1 : 1))
  return ['record', ...sorted.map(([name, part]) => [name, canonical(part)])]
}

const identities = new WeakMap<object, number>()
let lastIdentity = 0

function identityOf(thing: object): number {
  const known = identities.get(thing)
  if (known !== undefined) return known
  identities.set(thing, ++lastIdentity)
  return lastIdentity
}

function isObject(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function'
}
