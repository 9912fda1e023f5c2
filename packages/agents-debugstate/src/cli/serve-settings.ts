import { isLoopback } from '../server/loopback.ts'
import type { SqliteSynchronous } from '../server/sqlite-file.ts'
import { durationMsFrom } from './amount.ts'
import { UsageError } from './command-error.ts'
import { parseOptions, positionalsFrom } from './parse-options.ts'
import { LOG_LEVELS } from './service-log.ts'
import type { LogLevel } from './service-log.ts'

export type StoreSettings =
  | { readonly kind: 'sqlite'; readonly file: string; readonly synchronous: SqliteSynchronous }
  | { readonly kind: 'memory' }
  | { readonly kind: 'redis'; readonly url: string }

/** What `debugstate serve` was told. */
export interface ServeSettings {
  readonly port: number
  readonly host: string
  readonly store: StoreSettings
  readonly tokenFile: string | undefined
  readonly ttlMs: number | undefined
  readonly bodyBytes: number | undefined
  readonly pathPrefix: string | undefined
  readonly logLevel: LogLevel
  readonly logFormat: 'json' | 'text' | undefined
  readonly json: boolean
}

export const DEFAULT_PORT = 7420
export const DEFAULT_FILE = '.debugstate/state.db'

/** @throws UsageError that names the option and what it takes */
export function serveSettingsFrom(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): ServeSettings {
  const { values, positionals } = parseOptions('serve', args, {
    db: { type: 'string' },
    port: { type: 'string' },
    host: { type: 'string' },
    'token-file': { type: 'string' },
    store: { type: 'string' },
    'redis-url': { type: 'string' },
    synchronous: { type: 'string' },
    ttl: { type: 'string' },
    'max-bytes': { type: 'string' },
    'path-prefix': { type: 'string' },
    'log-level': { type: 'string' },
    'log-format': { type: 'string' },
    json: { type: 'boolean', default: false },
  })
  positionalsFrom('serve', positionals, [])
  const logLevel = values['log-level'] ?? (env['DEBUGSTATE_LOG_LEVEL'] || 'info')
  const logFormat = values['log-format']
  return {
    port: wholeNumber('--port', values.port, { from: 0, to: 65_535 }) ?? DEFAULT_PORT,
    host: values.host ?? '127.0.0.1',
    store: storeFrom(values, env),
    tokenFile: values['token-file'] ?? (env['DEBUGSTATE_TOKEN_FILE'] || undefined),
    ttlMs: ttlFrom(values.ttl),
    bodyBytes: wholeNumber('--max-bytes', values['max-bytes'], { from: 1, to: 16_777_216 }),
    pathPrefix: values['path-prefix'],
    logLevel: oneOf('--log-level', logLevel, LOG_LEVELS),
    logFormat: logFormat === undefined ? undefined : oneOf('--log-format', logFormat, FORMATS),
    json: values.json,
  }
}

/** @throws UsageError for a host that others reach, where there are no tokens */
export function checkHost(host: string, hasTokens: boolean): void {
  if (hasTokens || isLoopback(host)) return
  const message = `Without tokens the service listens on this machine only, not on ${host}`
  throw new UsageError(`${message}: add --token-file or DEBUGSTATE_TOKENS`)
}

const FORMATS = ['json', 'text'] as const

interface StoreOptions {
  readonly db?: string | undefined
  readonly store?: string | undefined
  readonly synchronous?: string | undefined
  readonly 'redis-url'?: string | undefined
}

function storeFrom(
  options: StoreOptions,
  env: Readonly<Record<string, string | undefined>>,
): StoreSettings {
  const { db, store = options['redis-url'] === undefined ? 'sqlite' : 'redis' } = options
  const kind = oneOf('--store', store, ['sqlite', 'memory', 'redis'])
  if (kind !== 'sqlite') {
    const extra = db === undefined ? options.synchronous && '--synchronous' : '--db'
    if (extra) throw new UsageError(`${extra} goes with --store sqlite, not ${kind}`)
  }
  if (kind !== 'redis' && options['redis-url'] !== undefined) {
    throw new UsageError(`--redis-url goes with --store redis, not ${kind}`)
  }
  if (kind === 'memory') return { kind }
  if (kind === 'redis') {
    const url = options['redis-url'] ?? env['DEBUGSTATE_REDIS_URL']
    if (!url) throw new UsageError('--store redis needs --redis-url or DEBUGSTATE_REDIS_URL')
    return { kind, url }
  }
  const synchronous = oneOf('--synchronous', options.synchronous ?? 'normal', ['normal', 'full'])
  return { kind, file: db ?? (env['DEBUGSTATE_DB'] || DEFAULT_FILE), synchronous }
}

function ttlFrom(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const ms = durationMsFrom(text)
  if (ms === undefined) {
    throw new UsageError(`--ttl takes a time such as 90s, 15m, 12h or 30d, not ${quoted(text)}`)
  }
  return ms
}

function wholeNumber(
  name: string,
  text: string | undefined,
  { from, to }: { readonly from: number; readonly to: number },
): number | undefined {
  if (text === undefined) return undefined
  const number = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
  if (number >= from && number <= to) return number
  throw new UsageError(`${name} takes a whole number from ${from} to ${to}, not ${quoted(text)}`)
}

function oneOf<const Value extends string>(
  name: string,
  text: string,
  values: readonly Value[],
): Value {
  const value = values.find((one) => one === text)
  if (value !== undefined) return value
  throw new UsageError(`${name} takes ${values.join(', ')}, not ${quoted(text)}`)
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text)
}
