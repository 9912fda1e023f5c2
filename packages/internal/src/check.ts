// Checks of the values of options. Used as a namespace: `check.number(1)`.
import { isRecord } from './is-record.ts'

/** Describes the values that one option takes. `undefined` always means the default. */
export interface Check {
  /** Completes the sentence "option … must be". */
  readonly takes: string
  readonly accepts: (value: unknown) => boolean
  /** Words that the option takes, for suggestions. Only an option with such words shows a string in its error. */
  readonly words?: readonly string[]
  /** Options inside the value, if it is an object. */
  readonly inside?: AnyChecks
  /** Checks each item of the value, if it is a list. */
  readonly items?: Check
  /** Checks each value of the value, if it is an object with any keys. */
  readonly values?: Check
  readonly isRequired?: boolean
}

/** Checks for each key of an options type. A key that is added to the type and missing here fails to compile. */
export type Checks<Options> = { readonly [Key in keyof Required<Options>]: Check }

export type AnyChecks = Readonly<Record<string, Check>>

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
export const string: Check = { takes: 'a string', accepts: (value) => typeof value === 'string' }
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
    accepts: (value) => Array.isArray(value) && value.every((one) => item.accepts(one)),
    items: item,
  }
}

/** An object whose keys are names that the user chooses. */
export function mapOf(value: Check): Check {
  return { ...record, values: value }
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

/** An object with these options and no others. */
export function section(inside: AnyChecks): Check {
  return { takes: `{ ${Object.keys(inside).join(', ')} }`, accepts: isRecord, inside }
}

/** One of several checks, none of which is an `or` itself. */
export function or(...checks: readonly Check[]): Check {
  const words = checks.flatMap((check) => check.words ?? [])
  const inside = checks.find((check) => check.inside !== undefined)?.inside
  const items = checks.find((check) => check.items !== undefined)?.items
  const values = checks.find((check) => check.values !== undefined)?.values
  return {
    takes: alternatives(checks.flatMap(({ takes, words: all }) => all?.map(quoted) ?? [takes])),
    accepts: (value) => checks.some(({ accepts }) => accepts(value)),
    ...(words.length > 0 && { words }),
    ...(inside !== undefined && { inside }),
    ...(items !== undefined && { items }),
    ...(values !== undefined && { values }),
  }
}

export function required(check: Check): Check {
  return { ...check, isRequired: true }
}

function quoted(word: string): string {
  return `'${word}'`
}

function alternatives(all: readonly string[]): string {
  return all.length < 2 ? all.join('') : `${all.slice(0, -1).join(', ')} or ${all.at(-1)}`
}

function isOfType(type: 'boolean' | 'function'): (value: unknown) => boolean {
  return (value) => typeof value === type
}
