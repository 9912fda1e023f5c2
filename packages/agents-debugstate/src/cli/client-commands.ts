import { isRecord } from '@x/internal'
import { CommandError, toLine, UsageError } from '@x/internal/command-line'
import type { CommandContext } from '@x/internal/command-line'
import { createDispatcher } from '@x/mcp-transport'
import { DebugStateClient, DebugStateError } from '../debug-state-client.ts'
import { resolveConfig } from '../debug-state-config.ts'
import type { DebugStateConfig } from '../debug-state-config.ts'
import type { KeyList, ListedKey } from '../server/debug-state-handler.ts'

/** Options of `list`, `get` and `delete`. */
export interface ClientFlags {
  readonly url: string | undefined
  readonly token: string | undefined
  readonly pathPrefix: string | undefined
}

/** One value, or all keys of an agent. */
interface Target {
  readonly agentId: string
  readonly key: string | undefined
}

export async function listKeys(
  agentId: string,
  { json, ...flags }: ClientFlags & { readonly json: boolean | undefined },
  { env, stdout }: CommandContext,
): Promise<void> {
  const config = getConfig(agentId, flags, env)
  const list = parseKeyList(await request(config, 'GET', { agentId, key: undefined }))
  if (list === undefined) {
    throw new CommandError(
      `The service at ${config.origin} did not answer with a list: check --url`,
    )
  }
  stdout.write(json ? `${JSON.stringify(list)}\n` : formatTable(list))
}

export async function getValue(
  target: Target,
  flags: ClientFlags,
  { env, stdout }: CommandContext,
): Promise<void> {
  const body = await request(getConfig(target.agentId, flags, env), 'GET', target)
  stdout.write(stdout.isTTY ? `${escape(body.toString().replace(/\n$/, ''))}\n` : body)
}

export async function deleteValue(
  target: Target,
  flags: ClientFlags,
  { env, stdout }: CommandContext,
): Promise<void> {
  await request(getConfig(target.agentId, flags, env), 'DELETE', target)
  stdout.write(`Deleted ${escape(target.key ?? '')}\n`)
}

function getConfig(
  agentId: string,
  { url, token, pathPrefix }: ClientFlags,
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

/** Sends one request over a connection of its own. Returns the body of a success. */
async function request(
  config: DebugStateConfig,
  method: 'GET' | 'DELETE',
  { agentId, key }: Target,
): Promise<Buffer> {
  const dispatcher = createDispatcher({ connections: 1 })
  const client = new DebugStateClient({ ...config, dispatcher, ...LIMITS })
  try {
    const answer = await client.request({ method, key, text: undefined, condition: undefined })
    const { status, body = Buffer.of() } = answer
    const isMissing = status === 404 || (status === 204 && method === 'GET')
    if (isMissing && key !== undefined) {
      const text = `Nothing is stored for ${agentId} under ${JSON.stringify(key)}`
      throw new CommandError(`${text}: see debugstate list ${agentId}`)
    }
    const isDone = method === 'GET' ? status === 200 : status >= 200 && status < 300
    if (!isDone) throw createStatusError(config, status, body)
    return body
  } catch (error) {
    if (!(error instanceof DebugStateError)) throw error
    const { message, cause } = error
    // A host with several addresses has one error for each.
    const first: unknown = cause instanceof AggregateError ? cause.errors[0] : cause
    const reason = first === undefined ? '' : ` (${toLine(first)})`
    throw new CommandError(`${message}: check --url${reason}`, { cause })
  } finally {
    await dispatcher.close()
  }
}

const LIMITS = { timeoutMs: 5000, maxBytes: 16 * 1024 * 1024 }

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

/** Formats aligned columns. Ages come from the clock of the service only. */
function formatTable({ agentId, keys, truncated }: KeyList): string {
  if (keys.length === 0) return `Nothing is stored for ${agentId}.\n`
  const rows = keys.map(({ key, bytes, ageMs, updatedAt, expiresAt }) => {
    const leftMs = Date.parse(expiresAt) - Date.parse(updatedAt) - ageMs
    return [escape(key), formatBytes(bytes), formatAge(ageMs), formatAge(leftMs)]
  })
  const table = [['KEY', 'SIZE', 'AGE', 'EXPIRES IN'], ...rows]
  const widthOf = (column: number): number =>
    Math.max(...table.map((row) => row[column]?.length ?? 0))
  const widths = [0, 1, 2, 3].map(widthOf)
  const lines = table.map(([key = '', ...cells]) => {
    const padded = cells.map((cell, index) => cell.padStart(widths[index + 1] ?? 0))
    return [key.padEnd(widths[0] ?? 0), ...padded].join('  ')
  })
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

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
] as const

/** Formats a size: `812 B`, `1.5 KiB`. */
export function formatBytes(bytes: number): string {
  return bytes < 1024 ? `${bytes} B` : `${(bytes / 1024).toFixed(1)} KiB`
}
