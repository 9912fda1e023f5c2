import { z } from 'zod'

// Kinds of values in a configuration. Messages say what is expected, as the end of the sentence "… expected …".

const MAX_TIMER_MS = 2_147_483_647

/** A whole number within these limits, both included. */
export const whole = (min: number, max: number = Number.MAX_SAFE_INTEGER): z.ZodNumber => {
  const error =
    max === Number.MAX_SAFE_INTEGER
      ? `a whole number of ${min} or more`
      : `a whole number from ${min} to ${max}`
  return z.int({ error }).min(min, { error }).max(max, { error })
}

/** Milliseconds, as many as a timer can wait. */
export const ms = (min = 0): z.ZodNumber => whole(min, MAX_TIMER_MS)

export const bytes: z.ZodNumber = whole(1)
export const flag: z.ZodBoolean = z.boolean({ error: 'true or false' })
export const text: z.ZodString = z
  .string({ error: 'text' })
  .min(1, { error: 'text that is not empty' })
export const texts: z.ZodArray<z.ZodString> = z.array(text, { error: 'a list of texts' })

export const oneOf = <const T extends readonly [string, ...string[]]>(
  ...values: T
): z.ZodEnum<Entries<T>> => z.enum(values, { error: `one of ${values.join(', ')}` })

export const url: z.ZodURL = z.url({ protocol: /^https?$/, error: 'an http or https URL' })

/** Of a URL: begins with a slash. */
export const path: z.ZodString = z
  .string({ error: 'a path such as /mcp' })
  .regex(/^\/[\w./~-]*$/, { error: 'a path such as /mcp' })

const HOST = 'a host name in small letters, without port, such as agents.example'

/** As requests name it, and `URL` reads it. */
export const host: z.ZodString = z
  .string({ error: HOST })
  .regex(/^(?:\[[\da-f:.]+\]|[a-z\d_-]+(?:\.[a-z\d_-]+)*)$/, { error: HOST })

const ORIGIN = 'the origin of a page, such as https://app.example'

/** As browsers send it: never all of them, and no address of a page. */
export const origin: z.ZodString = z
  .string({ error: ORIGIN })
  .regex(/^[a-z][a-z\d+.-]*:\/\/[^\sA-Z/?#*@]+$/, { error: ORIGIN })

/** Keys of its own. Left out, it is there all the same, with their defaults. */
export const section = <T extends z.core.$ZodLooseShape>(
  shape: T,
): z.ZodPrefault<z.ZodObject<T, z.core.$strict>> =>
  // eslint-disable-next-line typescript/no-unsafe-type-assertion -- each key has a default, which the type of any shape cannot say
  z.strictObject(shape, { error: 'a section with keys of its own' }).prefault(() => ({}) as never)

type Entries<T extends readonly string[]> = { [Each in T[number]]: Each }
