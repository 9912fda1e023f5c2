// Checks of options. Used as a namespace: `check.number(1)`.
import { withErrorLink } from './error-link.ts'
import { isRecord } from './is-record.ts'
import { nearestWord, nearestWords } from './nearest-word.ts'

/** An option that is unknown or has a wrong value. */
export interface OptionProblem {
  /** Where the option is, such as `servers.shop.url`. Empty for the options as a whole. */
  readonly path: string
  /** Names the option and the nearest valid key or value. Never shows a value that may be a secret. */
  readonly message: string
}

/** Describes the values that one option takes. `undefined` always means the default. */
export interface Check {
  /** Completes the sentence "option … must be". */
  readonly takes: string
  readonly accepts: (value: unknown) => boolean
  /** Words that the option takes, for suggestions. Only an option with such words shows a string in its error. */
  readonly words?: readonly string[]
  /** Keys of a section, for suggestions. */
  readonly keys?: readonly string[]
  /** Returns what is wrong inside a value that is accepted. */
  readonly inside?: (value: unknown, path: string) => OptionProblem | undefined
  readonly isRequired?: boolean
  /** Advice for an option of another library: the one to use here. */
  readonly instead?: string
}

/** Checks for each key of an options type. A key that is added to the type and missing here fails to compile. */
export type Checks<Options> = { readonly [Key in keyof Required<Options>]: Check }

type AnyChecks = Readonly<Record<string, Check>>

export const anything: Check = { takes: 'a value', accepts: () => true }
export const flag: Check = { takes: 'true or false', accepts: isOfType('boolean') }
export const func: Check = { takes: 'a function', accepts: isOfType('function') }
export const list: Check = { takes: 'a list', accepts: Array.isArray }
/** An object with any keys. */
export const record: Check = { takes: 'an object', accepts: isRecord }
export const text: Check = {
  takes: 'a string that is not empty',
  accepts: (value) => typeof value === 'string' && value !== '',
}
export const string: Check = { takes: 'a string', accepts: isOfType('string') }
/** The value is parsed, and refused with a reason of its own, where it is used. */
export const url: Check = {
  takes: 'a URL',
  accepts: (value) => value instanceof URL || (typeof value === 'string' && value !== ''),
}
/** Any dispatcher of undici: two copies of undici have different classes. */
export const dispatcher: Check = { ...methods('dispatch'), takes: 'an undici dispatcher' }

/** A number that is not smaller than `least`. `NaN`, the result of `Number(undefined)`, is refused. */
export function number(least = 0): Check {
  return {
    takes: `a number from ${least}`,
    accepts: (value) => typeof value === 'number' && value >= least,
  }
}

export function oneOf(...words: readonly string[]): Check {
  return {
    takes: alternatives(words.map(quoted)),
    accepts: (value) => words.some((word) => word === value),
    words,
  }
}

export function listOf(item: Check): Check {
  return {
    takes: `a list, each item ${item.takes}`,
    accepts: Array.isArray,
    inside: (value, path) =>
      Array.isArray(value) ? firstProblem(value, item, (index) => `${path}[${index}]`) : undefined,
  }
}

/** An object whose keys are names that the user chooses. */
export function mapOf(value: Check): Check {
  return {
    ...record,
    inside: (given, path) =>
      isPlain(given) ? firstProblem(given, value, (key) => joined(path, key)) : undefined,
  }
}

/** An object that has these functions, also of a class of another copy of the package. */
export function methods(...names: readonly string[]): Check {
  return {
    takes: `an object with ${names.map((name) => `${name}()`).join(' and ')}`,
    accepts: (value) =>
      typeof value === 'object' &&
      value !== null &&
      names.every((name) => typeof Reflect.get(value, name) === 'function'),
  }
}

/** An object with these options and no others. An instance of a class answers for itself. */
export function section(checks: AnyChecks): Check {
  return {
    takes: `{ ${keysOf(checks).join(', ')} }`,
    keys: keysOf(checks),
    accepts: isRecord,
    inside: (value, path) => (isPlain(value) ? optionProblem(value, checks, path) : undefined),
  }
}

/** One of several checks, none of which is an `or` itself. */
export function or(...checks: readonly Check[]): Check {
  const words = checks.flatMap((check) => check.words ?? [])
  return {
    takes: alternatives(checks.flatMap(({ takes, words: all }) => all?.map(quoted) ?? [takes])),
    accepts: (value) => checks.some(({ accepts }) => accepts(value)),
    ...(words.length > 0 && { words }),
    inside: (value, path) => checks.find(({ accepts }) => accepts(value))?.inside?.(value, path),
  }
}

export function required(check: Check): Check {
  return { ...check, isRequired: true }
}

/** Refuses an option of another library. `instead` is a sentence that says what to write in its place. */
export function foreign(instead: string): Check {
  return { takes: 'left out', accepts: () => false, instead }
}

function keysOf(checks: AnyChecks): readonly string[] {
  return Object.keys(checks).filter((key) => checks[key]?.instead === undefined)
}

function quoted(word: string): string {
  return `'${word}'`
}

function alternatives(all: readonly string[]): string {
  return all.length < 2 ? all.join('') : `${all.slice(0, -1).join(', ')} or ${all.at(-1)}`
}

function isOfType(type: 'boolean' | 'function' | 'string'): (value: unknown) => boolean {
  return (value) => typeof value === type
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
  const message = withErrorLink(`${owner}: ${problem.message}`, 'CONFIG')
  throw Object.assign(new TypeError(message), { code: 'CONFIG' })
}

/** Returns the first option that is unknown or has a wrong value. `path` is where the options are. */
function optionProblem(given: unknown, checks: AnyChecks, path: string): OptionProblem | undefined {
  if (!isRecord(given)) {
    const what = path === '' ? 'the options' : `option "${path}"`
    return { path, message: `${what} must be ${section(checks).takes}, not ${shown(given)}` }
  }
  for (const [key, value] of Object.entries(given)) {
    const check = Object.hasOwn(checks, key) ? checks[key] : undefined
    if (check === undefined || check.instead !== undefined) {
      const unknown = joined(path, key)
      const advice = check?.instead ?? adviceFor([key, value], checks, path)
      const message = `there is no option "${unknown}". ${advice}`
      return { path: unknown, message }
    }
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
  const { accepts, takes, inside, words } = check
  if (accepts(value)) return inside?.(value, path)
  const nearest =
    typeof value === 'string' && words !== undefined ? nearestWord(value, words) : undefined
  const advice = nearest === undefined ? '' : `. Did you mean '${nearest}'?`
  return { path, message: `option "${path}" must be ${takes}, not ${shown(value, words)}${advice}` }
}

function firstProblem(
  values: Readonly<Record<string, unknown>> | readonly unknown[],
  check: Check,
  pathOf: (key: string) => string,
): OptionProblem | undefined {
  for (const [key, value] of Object.entries(values)) {
    const problem = valueProblem(value, check, pathOf(key))
    if (problem !== undefined) return problem
  }
  return undefined
}

function adviceFor(
  [key, value]: readonly [string, unknown],
  checks: AnyChecks,
  path: string,
): string {
  const keys = keysOf(checks)
  const nested = keys.filter((each) => checks[each]?.keys?.includes(key))
  if (nested.length > 0) {
    const paths = nested.map((each) => `"${joined(joined(path, each), key)}"`)
    return `Did you mean ${alternatives(paths)}?`
  }
  // Prefers a similar name that accepts the value: `timeout: 5000` means `timeoutMs`, not `timeouts`.
  const fitting = keys.filter((each) => checks[each]?.accepts(value) === true)
  const nearest = nearestWord(key, fitting) ?? nearestWord(key, keys)
  if (nearest !== undefined) return `Did you mean "${joined(path, nearest)}"?`
  const of = path === '' ? '' : ` of "${path}"`
  if (keys.length <= MAX_LISTED) return `The options${of} are ${keys.join(', ')}`
  return `Its name is like none of the ${keys.length} options${of}. The nearest are ${nearestWords(key, keys).join(', ')}; your editor shows all, and the README of the package explains them`
}

function joined(path: string, key: string): string {
  const name = cut(key)
  if (!/^[\w$-]+$/.test(name) && path !== '') return `${path}["${name}"]`
  return path === '' ? name : `${path}.${name}`
}

const MAX_SHOWN = 40
/** A longer list makes an error hard to read. */
const MAX_LISTED = 12

function cut(value: string): string {
  return value.length > MAX_SHOWN ? `${value.slice(0, MAX_SHOWN)}…` : value
}

/** Describes a value in an error. A string may be a secret: it is shown only if the option takes one of `words`. */
export function shown(value: unknown, words?: readonly string[]): string {
  if (value === '') return 'an empty string'
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
