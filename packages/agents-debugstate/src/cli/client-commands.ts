import { isRecord, readAtMost } from '@x/internal'
import { CommandError, toLine, UsageError } from '@x/internal/command-line'
import { createDispatcher } from '@x/mcp-transport'
import { encodeSegment, resolveConfig } from '../debug-state-config.ts'
import type { DebugStateConfig } from '../debug-state-config.ts'
import type { KeyList, ListedKey } from '../server/debug-state-handler.ts'
import type { DebugStateAddress } from '../server/debug-state-store.ts'
import type { CommandContext } from './program.ts'

/** Options of `list`, `get` and `delete`. */
export interface ClientOptions {
  readonly url?: string
  readonly token?: string
  readonly pathPrefix?: string
}

export async function listKeys(
  agentId: string,
  { json, ...options }: ClientOptions & { readonly json?: boolean },
  { env, stdout }: CommandContext,
): Promise<void> {
  const config = getConfig(agentId, options, env)
  const { status, body } = await request(config, 'GET')
  if (status !== 200) throw createStatusError(config, status, body)
  const list = parseKeyList(body)
  if (list === undefined) {
    throw new CommandError(
      `The service at ${config.origin} did not answer with a list: check --url`,
    )
  }
  stdout.write(json ? `${JSON.stringify(list)}\n` : formatTable(list))
}

export async function getValue(
  { agentId, key }: DebugStateAddress,
  options: ClientOptions,
  { env, stdout }: CommandContext,
): Promise<void> {
  const config = getConfig(agentId, options, env)
  const { status, body } = await request(config, 'GET', key)
  if (status === 404 || status === 204) throw createMissingError(agentId, key)
  if (status !== 200) throw createStatusError(config, status, body)
  stdout.write(stdout.isTTY ? `${escape(body.toString().replace(/\n$/, ''))}\n` : body)
}

export async function deleteValue(
  { agentId, key }: DebugStateAddress,
  options: ClientOptions,
  { env, stdout }: CommandContext,
): Promise<void> {
  const config = getConfig(agentId, options, env)
  const { status, body } = await request(config, 'DELETE', key)
  if (status === 404) throw createMissingError(agentId, key)
  if (status < 200 || status > 299) throw createStatusError(config, status, body)
  stdout.write(`Deleted ${escape(key)}\n`)
}

function getConfig(
  agentId: string,
  { url, token, pathPrefix }: ClientOptions,
  env: CommandContext['env'],
): DebugStateConfig {
  if (url === undefined && !env['DEBUGSTATE_URL'] && !env['UIPATH_URL']) {
    throw new UsageError('The address of the service is missing: add --url or set DEBUGSTATE_URL')
  }
  let config: ReturnType<typeof resolveConfig>
  try {
    config = resolveConfig({ agentId, baseUrl: url, token, pathPrefix }, env)
  } catch (cause) {
    // The URL may contain a password, so it is not shown.
    const message = '--url must be an http(s) URL without query, user and password'
    throw new UsageError(message, { cause })
  }
  if ('missing' in config) throw new UsageError(config.missing)
  return config
}

interface Answer {
  readonly status: number
  readonly body: Buffer
}

/** Sends one request over a connection of its own. */
async function request(
  { origin, path, agentId, token }: DebugStateConfig,
  method: 'GET' | 'DELETE',
  key?: string,
): Promise<Answer> {
  const segments = key === undefined ? [agentId] : [agentId, key]
  const signal = AbortSignal.timeout(TIMEOUT_MS)
  const dispatcher = createDispatcher({ connections: 1 })
  try {
    const { statusCode, body } = await dispatcher.request({
      origin,
      path: [path, ...segments.map(encodeSegment)].join('/'),
      method,
      headers: typeof token === 'string' ? { authorization: `Bearer ${token}` } : {},
      signal,
    })
    const bytes = await readAtMost(body, MAX_BYTES)
    if (bytes !== undefined) return { status: statusCode, body: bytes }
    throw new CommandError(`The answer has more than ${MAX_BYTES} bytes: check --url`)
  } catch (cause) {
    if (cause instanceof CommandError) throw cause
    const what = signal.aborted ? `did not answer in ${TIMEOUT_MS / 1000} s` : 'cannot be reached'
    const detail = signal.aborted ? '' : ` (${toLine(cause) || getCode(cause)})`
    throw new CommandError(`The service at ${origin} ${what}: check --url${detail}`, { cause })
  } finally {
    await dispatcher.close()
  }
}

const TIMEOUT_MS = 5000
const MAX_BYTES = 16 * 1024 * 1024

function getCode(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'no connection'
}

const ADVICE: ReadonlyMap<number, string> = new Map([
  [401, 'set DEBUGSTATE_TOKEN'],
  [403, 'use a token for this agent'],
  [404, 'check --url and --path-prefix'],
])

function createStatusError(
  { origin }: DebugStateConfig,
  status: number,
  body: Buffer,
): CommandError {
  const problem = parseJson(body)
  const detail = isRecord(problem) ? problem['detail'] : undefined
  const parts = [
    `The service at ${origin} answered ${status}`,
    typeof detail === 'string' ? toLine(detail).slice(0, 300) : undefined,
    ADVICE.get(status),
  ]
  return new CommandError(parts.filter((part) => part !== undefined).join(': '))
}

function createMissingError(agentId: string, key: string): CommandError {
  const text = `Nothing is stored for ${agentId} under ${JSON.stringify(key)}`
  return new CommandError(`${text}: see debugstate list ${agentId}`)
}

function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}

function parseKeyList(body: Buffer): KeyList | undefined {
  const value = parseJson(body)
  if (!isRecord(value)) return undefined
  const { agentId, keys, truncated } = value
  if (typeof agentId !== 'string' || typeof truncated !== 'boolean') return undefined
  return Array.isArray(keys) && keys.every(isListedKey) ? { agentId, keys, truncated } : undefined
}

function isListedKey(value: unknown): value is ListedKey {
  if (!isRecord(value)) return false
  const { key, bytes, ageMs, updatedAt, expiresAt } = value
  const texts = [key, updatedAt, expiresAt].every((text) => typeof text === 'string')
  return texts && [bytes, ageMs].every((number) => Number.isFinite(number))
}

const HEADINGS = ['KEY', 'SIZE', 'AGE', 'EXPIRES IN']

/** Formats aligned columns. Ages come from the clock of the service only. */
function formatTable({ agentId, keys, truncated }: KeyList): string {
  if (keys.length === 0) return `Nothing is stored for ${agentId}.\n`
  const rows = keys.map(({ key, bytes, ageMs, updatedAt, expiresAt }) => {
    const leftMs = Date.parse(expiresAt) - Date.parse(updatedAt) - ageMs
    return [escape(key), formatBytes(bytes), formatAge(ageMs), formatAge(leftMs)]
  })
  const table = [HEADINGS, ...rows]
  const widths = HEADINGS.map((_, column) =>
    Math.max(...table.map((row) => row[column]?.length ?? 0)),
  )
  const lines = table.map((row) =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0
        return column === 0 ? cell.padEnd(width) : cell.padStart(width)
      })
      .join('  '),
  )
  if (truncated) lines.push('Note: there are more keys than the list contains.')
  return `${lines.join('\n')}\n`
}

/** Escapes control characters of foreign text: on a terminal they could move the cursor or hide text. */
function escape(text: string): string {
  return text.replace(
    /[^\P{C}\n\t]/gu,
    (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`,
  )
}

/** Formats a time in its largest whole unit: `3 min`. */
export function formatAge(ms: number): string {
  const [unit, size] = UNITS.find(([, unitMs]) => ms >= unitMs) ?? ['s', 1000]
  return `${Math.floor(Math.max(0, ms) / size)} ${unit}`
}

const UNITS: readonly (readonly [string, number])[] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1000],
]

/** Formats a size: `812 B`, `1.5 KiB`. */
export function formatBytes(bytes: number): string {
  return bytes < 1024 ? `${bytes} B` : `${(bytes / 1024).toFixed(1)} KiB`
}
