/**
 * Checks of what a server is reached with, for configs and directories alike. Each says what is wrong,
 * beginning with the field, or undefined; none repeats a value, which may be a secret.
 */
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const UNSAFE_VALUE = /[^\t\x20-\x7E\x80-\xFF]/
const ENVIRONMENT_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/
/** Windows has names like `ProgramFiles(x86)`. */
const WINDOWS_ENVIRONMENT_NAME = /^[^=\0]+$/

/** An absolute http(s) URL with a host, and without credentials, which would end up in messages. */
export function urlProblem(field: string, value: unknown): string | undefined {
  const text = value instanceof URL ? value.href : value
  if (typeof text !== 'string') return `${field} is not a string`
  if (text !== text.trim()) return `${field} begins or ends with white space`
  if (!URL.canParse(text)) return `${field} is not absolute, like "https://host/mcp"`
  const { protocol, hostname, username, password } = new URL(text)
  if (protocol !== 'http:' && protocol !== 'https:') {
    return `${field} must be http or https, not "${protocol}"`
  }
  // The parser would take the first part of the path for the host.
  if (hostname === '' || !/^https?:\/\/[^/]/i.test(text)) return `${field} has no host`
  if (username !== '' || password !== '') {
    return `${field} holds credentials: pass them as headers instead`
  }
  return undefined
}

export function headersProblem(field: string, value: unknown): string | undefined {
  if (!isRecord(value)) return `${field} is not an object of strings`
  for (const [name, text] of Object.entries(value)) {
    const here = `${field}[${JSON.stringify(name)}]`
    if (!TOKEN.test(name)) return `${here} has a name that is no header name`
    if (typeof text !== 'string') return `${here} is not a string`
    if (text.trim() === '') return `${here} is empty`
    if (UNSAFE_VALUE.test(text)) {
      return `${here} has characters that no header may hold (line breaks, control or non-Latin characters)`
    }
  }
  return undefined
}

export function commandProblem(field: string, value: unknown): string | undefined {
  if (typeof value !== 'string') return `${field} is not a string`
  if (value.trim() === '') return `${field} is blank`
  return value.includes('\0') ? `${field} holds a NUL character` : undefined
}

export function argumentsProblem(field: string, value: unknown): string | undefined {
  if (!Array.isArray(value)) return `${field} is not an array of strings`
  const wrong = value.findIndex((part) => typeof part !== 'string' || part.includes('\0'))
  return wrong === -1 ? undefined : `${field}[${wrong}] is not a string without NUL characters`
}

export function environmentProblem(
  field: string,
  value: unknown,
  platform: NodeJS.Platform = process.platform,
): string | undefined {
  if (!isRecord(value)) return `${field} is not an object of strings`
  const allowed = platform === 'win32' ? WINDOWS_ENVIRONMENT_NAME : ENVIRONMENT_NAME
  for (const [name, text] of Object.entries(value)) {
    const here = `${field}[${JSON.stringify(name)}]`
    if (!allowed.test(name)) return `${here} has a name that is none of an environment variable`
    if (typeof text !== 'string') return `${here} is not a string`
    if (text.includes('\0')) return `${here} holds a NUL character`
  }
  return undefined
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
