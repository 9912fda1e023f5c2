import { isRecord } from '@x/internal'
/**
 * What a server is reached with, for configs and directories alike. Each function gives the value back
 * checked, or throws a `FieldError` that begins with the name of the field. None repeats a value, which
 * may be a secret.
 */
export class FieldError extends TypeError {
  override readonly name = 'FieldError'
}

type Strings = Readonly<Record<string, string>>

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const UNSAFE_VALUE = /[^\t\x20-\x7E\x80-\xFF]/
const ENVIRONMENT_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/
/** Windows has names like `ProgramFiles(x86)`. */
const WINDOWS_ENVIRONMENT_NAME = /^[^=\0]+$/

/** An absolute http(s) URL with a host, and without credentials, which would end up in messages. */
export function urlFrom(field: string, value: unknown): string {
  const text = textFrom(field, value instanceof URL ? value.href : value)
  const refuse = (what: string): FieldError => new FieldError(`${field} ${what}`)
  if (text !== text.trim()) throw refuse('begins or ends with white space')
  if (!URL.canParse(text)) throw refuse('is not absolute, like "https://host/mcp"')
  const { protocol, hostname, username, password } = new URL(text)
  if (protocol !== 'http:' && protocol !== 'https:') {
    throw refuse(`must be http or https, not "${protocol}"`)
  }
  // The parser would take the first part of the path for the host.
  if (hostname === '' || !/^https?:\/\/[^/]/i.test(text)) throw refuse('has no host')
  if (username !== '' || password !== '') {
    throw refuse('holds credentials: pass them as headers instead')
  }
  return text
}

export function headersFrom(field: string, value: unknown): Strings {
  return stringsFrom(field, value, (here, name, text) => {
    if (!TOKEN.test(name)) throw new FieldError(`${here} has a name that is no header name`)
    if (text.trim() === '') throw new FieldError(`${here} is empty`)
    if (UNSAFE_VALUE.test(text)) {
      throw new FieldError(
        `${here} has characters that no header may hold (line breaks, control or non-Latin characters)`,
      )
    }
  })
}

/** Names as the platform allows them. */
export function environmentFrom(
  field: string,
  value: unknown,
  platform: NodeJS.Platform = process.platform,
): Strings {
  const allowed = platform === 'win32' ? WINDOWS_ENVIRONMENT_NAME : ENVIRONMENT_NAME
  return stringsFrom(field, value, (here, name, text) => {
    if (!allowed.test(name)) {
      throw new FieldError(`${here} has a name that is none of an environment variable`)
    }
    withoutNul(here, text)
  })
}

/** Names of headers whose values are secrets, each of them once: they have no case. */
export function secretHeaderKeysFrom(field: string, value: unknown): readonly string[] {
  return keysFrom(field, value, (here, key) => {
    if (!TOKEN.test(key)) throw new FieldError(`${here} is no header name`)
    return key.toLowerCase()
  })
}

/** Names of environment variables whose values are secrets, each of them once. */
export function secretEnvKeysFrom(
  field: string,
  value: unknown,
  platform: NodeJS.Platform = process.platform,
): readonly string[] {
  const isWindows = platform === 'win32'
  const allowed = isWindows ? WINDOWS_ENVIRONMENT_NAME : ENVIRONMENT_NAME
  return keysFrom(field, value, (here, key) => {
    if (!allowed.test(key)) throw new FieldError(`${here} is no name of an environment variable`)
    return isWindows ? key.toUpperCase() : key
  })
}

export function commandFrom(field: string, value: unknown): string {
  const text = textFrom(field, value)
  if (text.trim() === '') throw new FieldError(`${field} is blank`)
  return withoutNul(field, text)
}

export function argumentsFrom(field: string, value: unknown): readonly string[] {
  return textsFrom(field, value, withoutNul)
}

export function textFrom(field: string, value: unknown): string {
  if (typeof value !== 'string') throw new FieldError(`${field} is not a string`)
  return value
}

function textsFrom(
  field: string,
  value: unknown,
  check: (here: string, text: string) => void,
): readonly string[] {
  if (!Array.isArray(value)) throw new FieldError(`${field} is not an array of strings`)
  return value.map((part: unknown, index) => {
    const here = `${field}[${index}]`
    const text = textFrom(here, part)
    check(here, text)
    return text
  })
}

function keysFrom(
  field: string,
  value: unknown,
  /** Checks a key, and says by what it is the same as another one. */
  identityOf: (here: string, key: string) => string,
): readonly string[] {
  const known = new Set<string>()
  return textsFrom(field, value, (here, key) => {
    const identity = identityOf(here, key)
    if (known.has(identity)) throw new FieldError(`${here} is there twice`)
    known.add(identity)
  })
}

function stringsFrom(
  field: string,
  value: unknown,
  check: (here: string, name: string, text: string) => void,
): Strings {
  if (!isRecord(value)) throw new FieldError(`${field} is not an object of strings`)
  return Object.fromEntries(
    Object.entries(value).map(([name, given]) => {
      const here = `${field}[${JSON.stringify(name)}]`
      const text = textFrom(here, given)
      check(here, name, text)
      return [name, text]
    }),
  )
}

function withoutNul(field: string, text: string): string {
  if (text.includes('\0')) throw new FieldError(`${field} holds a NUL character`)
  return text
}
