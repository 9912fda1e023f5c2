import { section } from './check.ts'
import type { AnyChecks, Check } from './check.ts'
import { isRecord } from './is-record.ts'
import { nearestWord } from './nearest-word.ts'

/** An option that is unknown or has a wrong value. */
export interface OptionProblem {
  /** Where the option is, such as `servers.shop.url`. Empty for the options as a whole. */
  readonly path: string
  /** Names the option and the nearest valid key or value. Never shows a value that may be a secret. */
  readonly message: string
}

/**
 * Refuses options that are unknown or have a wrong value.
 *
 * @param owner the function or class that takes the options, or a function that creates the error
 * @throws TypeError with `code: 'CONFIG'`, or the error that `owner` returns
 */
export function assertOptions(
  owner: string | ((problem: OptionProblem) => Error),
  given: unknown,
  checks: AnyChecks,
): void {
  const problem = optionProblem(given, checks, '')
  if (problem === undefined) return
  if (typeof owner === 'function') throw owner(problem)
  throw Object.assign(new TypeError(`${owner}: ${problem.message}`), { code: 'CONFIG' })
}

/** Returns the first option that is unknown or has a wrong value. `path` is where the options are. */
function optionProblem(given: unknown, checks: AnyChecks, path: string): OptionProblem | undefined {
  if (!isRecord(given)) {
    const what = path === '' ? 'the options' : `option "${path}"`
    return { path, message: `${what} must be ${section(checks).takes}, not ${shown(given)}` }
  }
  for (const [key, value] of Object.entries(given)) {
    const check = Object.hasOwn(checks, key) ? checks[key] : undefined
    if (check === undefined) return unknownKey({ key, value, checks, path })
    if (value === undefined) continue
    const problem = valueProblem(value, check, joined(path, key))
    if (problem !== undefined) return problem
  }
  for (const [key, check] of Object.entries(checks)) {
    if (check.isRequired !== true || given[key] !== undefined) continue
    const missing = joined(path, key)
    return { path: missing, message: `option "${missing}" is missing: it must be ${check.takes}` }
  }
  return undefined
}

function valueProblem(value: unknown, check: Check, path: string): OptionProblem | undefined {
  const { accepts, takes, inside, items, values, words } = check
  if (items !== undefined && Array.isArray(value)) {
    return firstProblem(value.entries(), items, (index) => `${path}[${index}]`)
  }
  if (!accepts(value)) {
    const nearest =
      typeof value === 'string' && words !== undefined ? nearestWord(value, words) : undefined
    const advice = nearest === undefined ? '' : `. Did you mean '${nearest}'?`
    const message = `option "${path}" must be ${takes}, not ${shown(value, words)}${advice}`
    return { path, message }
  }
  // An instance of a class answers for itself.
  if (!isPlain(value)) return undefined
  if (values !== undefined) {
    return firstProblem(Object.entries(value), values, (key) => joined(path, key))
  }
  return inside === undefined ? undefined : optionProblem(value, inside, path)
}

function firstProblem<Key>(
  entries: Iterable<readonly [Key, unknown]>,
  check: Check,
  pathOf: (key: Key) => string,
): OptionProblem | undefined {
  for (const [key, value] of entries) {
    const problem = valueProblem(value, check, pathOf(key))
    if (problem !== undefined) return problem
  }
  return undefined
}

function unknownKey({
  key,
  value,
  checks,
  path,
}: {
  readonly key: string
  readonly value: unknown
  readonly checks: AnyChecks
  readonly path: string
}): OptionProblem {
  const keys = Object.keys(checks)
  // Prefers a similar name that accepts the value: `timeout: 5000` means `timeoutMs`, not `timeouts`.
  const fitting = keys.filter((each) => checks[each]?.accepts(value) === true)
  const nearest = nearestWord(key, fitting) ?? nearestWord(key, keys)
  const advice =
    nearest === undefined
      ? `The options${path === '' ? '' : ` of "${path}"`} are ${keys.join(', ')}`
      : `Did you mean "${joined(path, nearest)}"?`
  const unknown = joined(path, key)
  return { path: unknown, message: `there is no option "${unknown}". ${advice}` }
}

function joined(path: string, key: string): string {
  const name = cut(key)
  if (!/^[\w$-]+$/.test(name) && path !== '') return `${path}["${name}"]`
  return path === '' ? name : `${path}.${name}`
}

const MAX_SHOWN = 40

function cut(value: string): string {
  return value.length > MAX_SHOWN ? `${value.slice(0, MAX_SHOWN)}…` : value
}

function shown(value: unknown, words?: readonly string[]): string {
  if (typeof value === 'string') return words === undefined ? 'a string' : `'${cut(value)}'`
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'object' && value !== null) return 'an object'
  return typeof value === 'function' ? 'a function' : String(value)
}

function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  if (!isRecord(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
