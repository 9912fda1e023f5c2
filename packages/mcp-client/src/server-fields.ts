import { decodeText, isRecord } from '@x/internal'
import { readFile } from 'node:fs/promises'
import { isAbsolute } from 'node:path'

/** A field of a server has a value that cannot be used. The message never shows the value: it may be a secret. */
export class FieldError extends TypeError {
  override readonly name = 'FieldError'
}

type Strings = Readonly<Record<string, string>>

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const FORBIDDEN_IN_HEADER = /[^\t\x20-\x7E\x80-\xFF]/
const VARIABLE_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/
/** Windows has names such as `ProgramFiles(x86)`. */
const WINDOWS_VARIABLE_NAME = /^[^=\0]+$/

// Each `parse…` function returns the checked value, or throws a `FieldError` that starts with the name of the field.

function fail(field: string, problem: string, options?: ErrorOptions): never {
  throw new FieldError(`${field} ${problem}`, options)
}

/** Accepts an absolute http(s) URL with a host and without credentials, which would appear in messages. */
export function parseUrl(field: string, value: unknown): string {
  const text = parseText(field, value instanceof URL ? value.href : value)
  if (text !== text.trim()) fail(field, 'starts or ends with white space: remove it')
  if (!URL.canParse(text)) fail(field, 'must be an absolute URL, such as "https://host/mcp"')
  const { protocol, hostname, username, password } = new URL(text)
  if (protocol !== 'http:' && protocol !== 'https:')
    fail(field, `must be http or https, not "${protocol}"`)
  // `new URL('https:///mcp')` takes "mcp" as the host.
  if (hostname === '' || !/^https?:\/\/[^/]/i.test(text))
    fail(field, 'has no host: write it as "https://host/mcp"')
  if (username !== '' || password !== '')
    fail(field, 'contains credentials: send them in headers instead')
  return text
}

export function parseHeaders(field: string, value: unknown): Strings {
  return parseStrings(field, value, (entry, name, text) => {
    if (!HEADER_NAME.test(name))
      fail(entry, 'has an invalid header name: use letters, digits and "-"')
    if (text.trim() === '') fail(entry, 'is empty: give it a value or leave it out')
    if (FORBIDDEN_IN_HEADER.test(text))
      fail(
        entry,
        'contains characters that a header must not have: remove line breaks, control characters and non-Latin characters',
      )
  })
}

/** Accepts the names that `platform` allows for environment variables. */
export function parseEnvironment(
  field: string,
  value: unknown,
  platform: NodeJS.Platform = process.platform,
): Strings {
  return parseStrings(field, value, (entry, name, text) => {
    const allowed = platform === 'win32' ? WINDOWS_VARIABLE_NAME : VARIABLE_NAME
    if (!allowed.test(name))
      fail(entry, 'has an invalid variable name: use letters, digits and "_"')
    assertNoNul(entry, text)
  })
}

export function parseCommand(field: string, value: unknown): string {
  const text = parseText(field, value)
  if (text.trim() === '') fail(field, 'must not be blank')
  assertNoNul(field, text)
  return text
}

export function parseArguments(field: string, value: unknown): readonly string[] {
  if (!Array.isArray(value)) fail(field, 'must be an array of strings')
  return value.map((part: unknown, index) => {
    const entry = `${field}[${index}]`
    const text = parseText(entry, part)
    assertNoNul(entry, text)
    return text
  })
}

/** Accepts an absolute path. */
export function parseFolder(field: string, value: unknown): string {
  const text = parseText(field, value)
  assertNoNul(field, text)
  if (!isAbsolute(text)) fail(field, 'must be an absolute path')
  return text
}

const HTTP_NAMES = ['http', 'streamable_http', 'streamable-http', 'streamableHttp']

/** Accepts the names that other clients have for Streamable HTTP. */
export function parseHttpTransport(field: string, value: unknown): string {
  const text = parseText(field, value)
  if (text === 'sse') {
    fail(
      field,
      'is "sse", the transport of 2024-11-05, which is not supported: use the server\'s Streamable HTTP endpoint',
    )
  }
  if (!HTTP_NAMES.includes(text)) fail(field, 'must be "http" for a server at a URL')
  return text
}

export function parseStdioTransport(field: string, value: unknown): string {
  const text = parseText(field, value)
  if (text !== 'stdio') fail(field, 'must be "stdio" for a server with a command')
  return text
}

/** Accepts a text that is not empty. */
export function parseName(field: string, value: unknown): string {
  const text = parseText(field, value)
  if (text === '') fail(field, 'must not be empty')
  return text
}

export function parseText(field: string, value: unknown): string {
  if (typeof value !== 'string') fail(field, 'must be a string')
  return value
}

export type Parsers<Fields> = {
  readonly [Name in keyof Fields]: (field: string, value: unknown) => Fields[Name]
}

/** Fields of a server at a URL. */
export const urlFields: Parsers<{
  readonly url: string
  readonly headers: Strings
}> = {
  url: parseUrl,
  headers: parseHeaders,
}

/** Fields of a server that is a program. */
export const commandFields: Parsers<{
  readonly command: string
  readonly args: readonly string[]
  readonly env: Strings
  readonly cwd: string
}> = {
  command: parseCommand,
  args: parseArguments,
  env: parseEnvironment,
  cwd: parseFolder,
}

/** Parses the fields that are given, in the order of `parsers`. Ignores other fields. @throws FieldError */
export function parseFields<Fields>(
  parsers: Parsers<Fields>,
  given: Readonly<Record<string, unknown>>,
  prefix = '',
): Partial<Fields> {
  const parsed: Partial<Fields> = {}
  for (const name in parsers) {
    if (given[name] !== undefined) parsed[name] = parsers[name](prefix + name, given[name])
  }
  return parsed
}

/** Returns the fields of a JSON object that are not null. */
export function withoutNulls(
  object: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== null))
}

/** Parses a JSON object. `field` names its source in errors. */
export function parseJsonObject(field: string, text: string): Readonly<Record<string, unknown>> {
  let content: unknown
  try {
    content = JSON.parse(text)
  } catch (error) {
    const [where = ''] = / \(line \d+ column \d+\)/.exec(String(error)) ?? []
    // No cause: the message of the parser repeats a part of the text, which may be a secret.
    fail(field, `is not valid JSON${where}`)
  }
  if (!isRecord(content)) fail(field, 'must be a JSON object')
  return content
}

/** Reads a file with a JSON object. `field` names the file in errors. */
export async function readJsonObject(
  field: string,
  path: string,
  signal?: AbortSignal,
): Promise<Readonly<Record<string, unknown>>> {
  let text
  try {
    text = decodeText(await readFile(path, signal === undefined ? {} : { signal }))
  } catch (cause) {
    if (signal?.aborted === true) throw signal.reason
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown reason'
    fail(field, `cannot be read (${code}): check its path and permissions`, {
      cause,
    })
  }
  return parseJsonObject(field, text)
}

function parseStrings(
  field: string,
  value: unknown,
  check: (entry: string, name: string, text: string) => void,
): Strings {
  if (!isRecord(value)) fail(field, 'must be an object with string values')
  return Object.fromEntries(
    Object.entries(value).map(([name, given]) => {
      const entry = `${field}[${JSON.stringify(name)}]`
      const text = parseText(entry, given)
      check(entry, name, text)
      return [name, text]
    }),
  )
}

function assertNoNul(field: string, text: string): void {
  if (text.includes('\0')) fail(field, 'must not contain a NUL character')
}
