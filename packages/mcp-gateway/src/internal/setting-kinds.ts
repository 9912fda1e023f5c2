// Kinds of values of settings. Each `error` completes the sentence "… must be".
import { LONGEST_MS } from '@x/internal'
import { z } from 'zod'

/** A whole number from `min` to `max`, of a unit if it has one. `Infinity` stands for `max`. */
export function whole(
  min: number,
  max: number = Number.MAX_SAFE_INTEGER,
  unit?: SettingUnit,
): z.ZodType<number> {
  const isOpen = max === Number.MAX_SAFE_INTEGER
  const what = unit === undefined ? 'a whole number' : `a whole number of ${unit}`
  const error = isOpen
    ? `${what}${unit ? ',' : ' of'} ${min} or more`
    : `${what} from ${min} to ${max}`
  const number = z.int({ error }).min(min, { error }).max(max, { error })
  return z.preprocess((value) => (value === Infinity ? max : value), number)
}

/** Units of numbers. Errors name them. */
export const SETTING_UNITS = ['milliseconds', 'bytes'] as const
export type SettingUnit = (typeof SETTING_UNITS)[number]

/** Milliseconds that a timer waits. */
export const ms = (min = 0): z.ZodType<number> => whole(min, LONGEST_MS, 'milliseconds')
/** Most milliseconds for which something is kept: 31 years. The time of its end is a safe integer. */
export const MAX_TTL_MS = 1e12
/** Milliseconds for which something is kept. */
export const ttl: z.ZodType<number> = whole(1, MAX_TTL_MS, 'milliseconds')
/** A number of bytes. */
export const size = (min: number): z.ZodType<number> => whole(min, undefined, 'bytes')
/** A number of bytes, at least 1. */
export const bytes: z.ZodType<number> = size(1)
/** `true` or `false`. */
export const flag: z.ZodType<boolean> = z.boolean({ error: 'true or false' })
/** Text that is not empty. */
export const text: z.ZodString = z
  .string({ error: 'text' })
  .min(1, { error: 'text that is not empty' })
/** A list of texts that are not empty. */
export const texts: z.ZodArray<z.ZodString> = z.array(text, { error: 'a list of texts' })
/** An http or https URL. */
export const url: z.ZodURL = webUrl('an http or https URL')
/** The URL of a service, to which paths are appended. */
export const publicUrl: z.ZodURL = webUrl(
  'an http or https URL such as https://agents.example',
).refine(isPlainUrl, {
  error:
    'a URL without user name, query, fragment, spaces and backslashes, such as https://agents.example/team',
})
/** Text that matches a pattern. */
export const matching = (pattern: RegExp, error: string): z.ZodString =>
  z.string({ error }).regex(pattern, { error })
const HOST_NAME = /^(?:\[[\da-f:.]+\]|[a-z\d_-]+(?:\.[a-z\d_-]+)*)$/
const ORIGIN = /^[a-z][a-z\d+.-]*:\/\/[^\sA-Z/?#*@]+$/

/** A host name as requests contain it, and as `URL` reads it. */
export const hostName: z.ZodString = matching(
  HOST_NAME,
  'a host name in small letters, without port, such as agents.example',
)
/** An origin as browsers send it. `*` and the URL of a page are refused. */
export const origin: z.ZodString = matching(
  ORIGIN,
  'the origin of a page, such as https://app.example',
)
/** Returns whether a text can be a `hostName`. */
export const isHostName = (value: string): boolean => HOST_NAME.test(value)
/** Returns whether a text can be an `origin`. */
export const isOrigin = (value: string): boolean => ORIGIN.test(value)

/** One of several words. */
export const oneOf = <const T extends readonly [string, ...string[]]>(
  ...values: T
): z.ZodEnum<{ [Each in T[number]]: Each }> =>
  z.enum(values, { error: `one of ${values.join(', ')}` })

/** Settings by name. A section that is left out has its defaults. */
export const section = <T extends z.core.$ZodLooseShape>(
  shape: T,
): z.ZodPrefault<z.ZodObject<T, z.core.$strict>> =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- each setting has a default, which the type of any shape cannot say
  z.strictObject(shape, { error: 'a section with keys of its own' }).prefault(() => ({}) as never)

/** A setting without a default. */
export const unset = <T>(schema: z.ZodType<T>): z.ZodType<T | undefined> => schema.optional()

/** Marks a setting, or a whole section, that is never shown. */
export const secret = <T extends z.ZodType>(schema: T): T => schema.meta({ secret: true })
/** Headers of requests, by name. They are secret. */
export const headers: z.ZodRecord<z.ZodString, z.ZodString> = secret(
  z.record(text, text, { error: 'headers by name' }),
)

function webUrl(error: string): z.ZodURL {
  return z.url({ protocol: /^https?$/, error })
}

function isPlainUrl(value: string): boolean {
  if (/[\s\\?#]/.test(value) || !URL.canParse(value)) return false
  const { username, password, pathname } = new URL(value)
  return username === '' && password === '' && !/%(?![\da-f]{2})/i.test(pathname)
}
