import { readFile, stat } from 'node:fs/promises'
import { fulfilledWithin, isLoopback } from '@x/internal'
import { CommandError, listenToStopSignals, toLine, UsageError } from '@x/internal/command-line'
import type { CommandContext } from '@x/internal/command-line'
import { pino } from 'pino'
import {
  createDebugStateServer,
  DebugStateServerError,
} from '../server/create-debug-state-server.ts'
import type { DebugStateServer } from '../server/create-debug-state-server.ts'
import { getErrorFields } from '../server/debug-state-handler.ts'
import type { DebugStateLogger } from '../server/debug-state-handler.ts'
import type { DebugStateStore } from '../server/debug-state-store.ts'
import { MemoryDebugStateStore } from '../server/memory-debug-state-store.ts'
import type { SqliteSynchronous } from '../server/sqlite-debug-state-store.ts'
import { parseTokenList } from '../server/tokens.ts'
import type { DebugStateTokenGrant } from '../server/tokens.ts'

const DEFAULT_FILE = '.debugstate/state.db'

/** Options of `serve`, as commander has parsed them. */
export interface ServeFlags {
  readonly port: number
  readonly host: string
  readonly db: string | undefined
  readonly synchronous: SqliteSynchronous | undefined
  readonly store: 'sqlite' | 'redis' | 'memory' | undefined
  readonly redisUrl: string | undefined
  readonly tokenFile: string | undefined
  readonly ttl: number | undefined
  readonly maxBytes: number | undefined
  readonly pathPrefix: string | undefined
  readonly logLevel: string
}

/** Runs the service until SIGINT or SIGTERM. */
export async function serve(flags: ServeFlags, context: CommandContext): Promise<void> {
  const { stdout, env, onSignal, exit } = context
  const { host, tokenFile = env['DEBUGSTATE_TOKEN_FILE'] || undefined } = flags
  const logger = createLogger(flags.logLevel, context.stderr)
  const createStore = chooseStore(flags, env)
  const tokens = await readTokens(tokenFile, env)
  if (tokens === undefined && !isLoopback(host)) {
    const message = `Without tokens the service listens on this machine only, not on ${host}`
    throw new UsageError(`${message}: add --token-file or DEBUGSTATE_TOKENS`)
  }
  using signals = listenToStopSignals(onSignal, exit)
  const store = await createStore()
  try {
    await store.list('health', 1) // a service with a broken store does not start
    await using server = createDebugStateServer({
      store,
      tokens: tokens?.grants,
      limits: { bodyBytes: flags.maxBytes, ttlMs: flags.ttl },
      pathPrefix: flags.pathPrefix,
      logger,
    })
    const url = await listen(server, flags)
    if (tokens?.warning !== undefined) logger.warn({}, tokens.warning)
    const reload = async (file: string): Promise<void> => {
      try {
        server.replaceTokens((await readTokenFile(file)).grants)
      } catch (error) {
        logger.error(getErrorFields(error), 'tokens not replaced')
      }
    }
    const stopListening = tokenFile && onSignal('SIGHUP', () => void reload(tokenFile))
    // The address comes last: its reader may send signals at once.
    stdout.write(`${url}\n`)
    logger.info({ signal: await signals.stopped }, 'asked to stop')
    if (stopListening) stopListening()
  } finally {
    await closeStore(store, logger, exit)
  }
}

async function listen(server: DebugStateServer, { port, host }: ServeFlags): Promise<string> {
  try {
    return await server.listen({ port, host })
  } catch (cause) {
    if (!(cause instanceof DebugStateServerError)) throw cause
    const reason = cause.cause instanceof Error ? `: ${cause.cause.message}` : ''
    const advice = cause.code === 'ADDRESS_IN_USE' ? ' (--port)' : reason
    throw new CommandError(`${cause.message}${advice}`, { cause })
  }
}

/** @throws UsageError for options that do not fit together */
function chooseStore(
  { db, synchronous, redisUrl, store = redisUrl === undefined ? 'sqlite' : 'redis' }: ServeFlags,
  env: CommandContext['env'],
): () => Promise<DebugStateStore> {
  if (store !== 'sqlite' && (db !== undefined || synchronous !== undefined)) {
    const name = db === undefined ? '--synchronous' : '--db'
    throw new UsageError(`${name} needs --store sqlite, not ${store}`)
  }
  if (store !== 'redis' && redisUrl !== undefined) {
    throw new UsageError(`--redis-url needs --store redis, not ${store}`)
  }
  if (store === 'memory') return async () => new MemoryDebugStateStore()
  if (store === 'sqlite') {
    return async () => {
      const { SqliteDebugStateStore } = await import('../server/sqlite-debug-state-store.ts')
      return new SqliteDebugStateStore(db ?? (env['DEBUGSTATE_DB'] || DEFAULT_FILE), {
        synchronous,
      })
    }
  }
  const url = redisUrl ?? env['DEBUGSTATE_REDIS_URL']
  if (!url) throw new UsageError('--store redis needs --redis-url or DEBUGSTATE_REDIS_URL')
  return async () => {
    const { RedisDebugStateStore } = await import('../server/redis-debug-state-store.ts')
    try {
      return new RedisDebugStateStore({ url })
    } catch (cause) {
      // The URL may contain a password, so it is not shown.
      const message = '--redis-url must be redis://host:port, or rediss:// for TLS'
      throw new UsageError(message, { cause })
    }
  }
}

/** A store that does not close in time must not keep the process alive. */
async function closeStore(
  store: DebugStateStore,
  logger: DebugStateLogger,
  exit: CommandContext['exit'],
): Promise<void> {
  try {
    if (await fulfilledWithin(store.close(), CLOSE_STORE_MS)) return
    logger.error({}, 'the store does not close')
    exit(1)
  } catch (error) {
    logger.error(getErrorFields(error), 'the store could not be closed')
  }
}

const CLOSE_STORE_MS = 2000

/** The tokens of a service. */
interface Tokens {
  readonly grants: readonly DebugStateTokenGrant[]
  /** A text for the log about the permissions of the file. */
  readonly warning: string | undefined
}

/**
 * Reads the tokens of a file or of the variable `DEBUGSTATE_TOKENS`. Returns `undefined` if there are none.
 *
 * @throws Error for a wrong list, and for a file that every user can write
 */
export async function readTokens(
  file: string | undefined,
  env: CommandContext['env'],
): Promise<Tokens | undefined> {
  const list = env['DEBUGSTATE_TOKENS']
  if (file !== undefined && list) {
    throw new UsageError('--token-file and DEBUGSTATE_TOKENS are both set: keep one of them')
  }
  if (file !== undefined) return readTokenFile(file)
  return list
    ? {
        grants: parseTokenList(list.replaceAll(';', '\n'), 'DEBUGSTATE_TOKENS'),
        warning: undefined,
      }
    : undefined
}

async function readTokenFile(file: string): Promise<Tokens> {
  let text: string
  let mode: number
  try {
    const found = await stat(file)
    if (found.size > MAX_TOKEN_BYTES) throw new Error(`it has more than ${MAX_TOKEN_BYTES} bytes`)
    // On Windows these bits have no meaning: every file seems to be writable for every user.
    mode = process.platform === 'win32' ? 0 : found.mode
    text = await readFile(file, 'utf8')
  } catch (cause) {
    throw new CommandError(`The token file ${file} cannot be read: ${toLine(cause)}`, { cause })
  }
  if (mode & 0o002) throw new CommandError(`Every user can write ${file}: chmod 600 it`)
  const warning = mode & 0o004 ? `every user can read ${file}: chmod 600 it` : undefined
  return { grants: parseTokenList(text, file), warning }
}

const MAX_TOKEN_BYTES = 1_048_576

/** Creates the log of the service. Each line is written at once, so that a killed process loses none. */
function createLogger(level: string, stream: NodeJS.WritableStream): DebugStateLogger {
  return pino(
    {
      level,
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: (line) => stream.write(line) },
  )
}
