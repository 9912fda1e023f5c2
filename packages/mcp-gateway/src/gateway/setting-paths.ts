// What a schema says about one place: its keys, its kind, whether it is secret; and the sentences for values that do
// not fit.
import { isRecord, nearestWord, shown } from '@x/internal'
import { z } from 'zod'

import { SETTING_UNITS, type SettingUnit } from '../internal/setting-kinds.ts'

/** A place in settings. */
export type SettingPath = readonly (string | number)[]

/** For people: `sources[0].url`, `tools.overrides["support/ask"].title`. */
export function pathText(path: SettingPath): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === 'number') return `${text}[${part}]`
    if (!/^[\w$-]+$/.test(part) && text !== '') return `${text}[${JSON.stringify(part)}]`
    return text === '' ? part : `${text}.${part}`
  }, '')
}

/** Parses such a text. Any other text is one key. */
export function parsePath(text: string): SettingPath {
  const parts = text.matchAll(/\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]|([^.[\]]+)/g)
  return [...parts].map(([, index, quoted, key]) =>
    index === undefined ? (quoted ?? key ?? '') : Number(index),
  )
}

type JsonShape = Readonly<Record<string, unknown>>

/** The JSON Schemas of a place: several where the schema has alternatives, none where it knows no such place. */
export function shapesAt(schema: z.ZodType, path: SettingPath): readonly JsonShape[] {
  let places: readonly z.core.$ZodType[] = [schema]
  for (const part of path) places = places.flatMap((each) => partOf(each, part))
  // Only this place is converted: the whole takes as long as a third of the start of a gateway.
  return places.flatMap((each) =>
    alternatives(z.toJSONSchema(each, { io: 'input', unrepresentable: 'any' })),
  )
}

/** Returns the schemas of one part of what a schema describes. */
function partOf(schema: z.core.$ZodType, part: string | number): readonly z.core.$ZodType[] {
  if (schema instanceof z.ZodUnion) return schema.options.flatMap((each) => partOf(each, part))
  if (schema instanceof z.ZodPipe) return partOf(schema.out, part)
  if (
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodPrefault
  ) {
    return partOf(schema.unwrap(), part)
  }
  if (typeof part === 'number') return schema instanceof z.ZodArray ? [schema.element] : []
  if (schema instanceof z.ZodRecord) return [schema.valueType]
  const found = schema instanceof z.ZodObject ? schema.shape[part] : undefined
  return found === undefined ? [] : [found]
}

/** A schema with alternatives is replaced by them; what it says about itself holds for each of them. */
function alternatives(schema: unknown): readonly JsonShape[] {
  if (!isRecord(schema)) return []
  const { anyOf, oneOf, ...own } = schema
  const choices = anyOf ?? oneOf
  if (!Array.isArray(choices)) return [schema]
  return choices.flatMap(alternatives).map((each) => ({ ...own, ...each }))
}

function recordAt(value: JsonShape, key: string): JsonShape {
  const found = value[key]
  return isRecord(found) ? found : {}
}

/** Keys that are known at a place. None where the keys are names of the user. */
export function knownKeys(schema: z.ZodType, path: SettingPath): readonly string[] {
  const all = shapesAt(schema, path).flatMap((each) => Object.keys(recordAt(each, 'properties')))
  return [...new Set(all)]
}

/** Returns whether the value of a place must not be shown. */
export function isSecret(schema: z.ZodType, path: SettingPath): boolean {
  return shapesAt(schema, path).some((shape) => shape['secret'] === true)
}

/** One value that does not fit. */
export interface SettingProblem {
  readonly path: SettingPath
  readonly type: 'unknown' | 'missing' | 'wrong'
  /** Completes the sentence "… must be". */
  readonly expected: string
  /** Words that the place accepts. */
  readonly words: readonly string[] | undefined
  /** Known key or word that is most like the given one, or the path of a setting in another section. */
  readonly nearest: string | undefined
  readonly found: unknown
  /** The value has the right type, such as a text in place of a URL. */
  readonly isTyped: boolean
}

/** Returns where a setting is, such as `http.port`, if exactly one section has it. */
function pathInSection(schema: z.ZodType, key: string): string | undefined {
  const sections = knownKeys(schema, []).filter((each) => knownKeys(schema, [each]).includes(key))
  return sections.length === 1 ? `${sections[0]}.${key}` : undefined
}

/** What a schema found wrong with `value`. */
export function problemsOf(
  schema: z.ZodType,
  issue: z.core.$ZodIssue,
  value: unknown,
): readonly SettingProblem[] {
  const path = issue.path.map((part) => (typeof part === 'number' ? part : String(part)))
  if (issue.code === 'unrecognized_keys') {
    // A key that another alternative of the schema has, such as a source of another type, would mislead.
    const known = knownKeys(schema, path).filter((key) => !issue.keys.includes(key))
    return issue.keys.map((key) => ({
      path: [...path, key],
      type: 'unknown',
      expected: known.join(', '),
      words: undefined,
      nearest:
        (path.length === 0 ? pathInSection(schema, key) : undefined) ?? nearestWord(key, known),
      found: valueAt(value, [...path, key]),
      isTyped: false,
    }))
  }
  const found = valueAt(value, path)
  if (issue.code === 'invalid_union' && isRecord(found)) {
    // The user meant the alternative that is an object.
    const meant = issue.errors.find((errors) =>
      errors.every((each) => each.path.length > 0 || each.code === 'unrecognized_keys'),
    )
    if (meant !== undefined) {
      return meant.flatMap((each) =>
        problemsOf(schema, { ...each, path: [...issue.path, ...each.path] }, value),
      )
    }
  }
  const words = issue.code === 'invalid_value' ? issue.values.map(String) : undefined
  const nearest = words && typeof found === 'string' ? nearestWord(found, words) : undefined
  const type = found === undefined ? 'missing' : 'wrong'
  const isTyped = issue.code !== 'invalid_type'
  return [{ path, type, expected: issue.message, words, nearest, found, isTyped }]
}

/**
 * A problem as a sentence about an option of a function or a setting of a file. The only text of the user in it is a
 * word that should be another one: any other text may be a secret in a wrong place.
 */
export function problemText(problem: SettingProblem, noun: 'option' | 'setting'): string {
  const { path, type, nearest, words, found, isTyped } = problem
  const place = path.length === 0 ? `the ${noun}s` : `${noun} "${pathText(path)}"`
  if (type === 'unknown') {
    const around = path.slice(0, -1)
    const of = around.length === 0 ? '' : ` of "${pathText(around)}"`
    const advice =
      nearest === undefined
        ? `The ${noun}s${of} are ${problem.expected}`
        : `Did you mean "${pathText([...around, nearest])}"?`
    return `there is no ${place}. ${advice}`
  }
  const expected = words ? orList(words.map((each) => `'${each}'`)) : problem.expected
  if (type === 'missing') return `${place} is missing: it must be ${expected}`
  const amount = amountIn(found, problem.expected)
  const advice =
    nearest !== undefined
      ? `. Did you mean '${nearest}'?`
      : amount !== undefined
        ? `. Write ${amount}`
        : ''
  // A number in the place of a text may be a secret.
  const isHidden = typeof found === 'number' && !problem.expected.includes('number')
  const got = isHidden ? 'a number' : shown(found, words)
  // "must be the origin of a page, not a string" would deny that an origin is a string.
  const isPlain = isTyped && (got === 'a string' || got === 'an object' || got === 'a list')
  return `${place} must be ${expected}${isPlain ? '' : `, not ${got}`}${advice}`
}

const [KIB, MIB, GIB] = [1024, 1_048_576, 1_073_741_824]

/** Units that people write behind a number, by the unit that a setting has. */
const UNITS: Readonly<Record<SettingUnit, Readonly<Record<string, number>>>> = {
  milliseconds: { ms: 1, s: 1000, sec: 1000, m: 60_000, min: 60_000, h: 3_600_000, d: 86_400_000 },
  bytes: { b: 1, k: KIB, kb: KIB, kib: KIB, m: MIB, mb: MIB, mib: MIB, g: GIB, gb: GIB, gib: GIB },
}

/** Returns the number that a text such as `5m` means in the unit of the setting. */
function amountIn(found: unknown, expected: string): number | undefined {
  const [, number, name = ''] = /^(\d{1,9})\s*([a-z]{1,3})$/i.exec(String(found)) ?? []
  const unit = SETTING_UNITS.find((each) => expected.includes(each))
  const factor = unit && UNITS[unit][name.toLowerCase()]
  return factor && Number(number) * factor
}

function orList(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`
}

/** The value at a place. `undefined` if there is none. */
export function valueAt(value: unknown, path: SettingPath): unknown {
  return path.reduce<unknown>((within, part) => {
    if (Array.isArray(within)) return within[Number(part)]
    return isRecord(within) && Object.hasOwn(within, part) ? within[part] : undefined
  }, value)
}
