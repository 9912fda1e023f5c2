import {
  CommandError,
  createProgram,
  listenToStopSignals,
  parseWholeNumber,
  runProgram,
  toLine,
  UsageError,
} from '@x/internal/command-line'
import { splitErrorLink } from '@x/internal'
import type { CommandContext } from '@x/internal/command-line'
import { pino } from 'pino'
import {
  createDebugStateServer,
  DebugStateServerError,
} from '../server/create-debug-state-server.ts'
import type { DebugStateServer } from '../server/create-debug-state-server.ts'
import type { DebugStateLogger } from '../server/debug-state-handler.ts'
import type { DebugStateStore } from '../server/debug-state-store.ts'
import { isToken, TOKEN_RULE } from '../server/tokens.ts'

/** Options of `serve`, as commander has parsed them. */
interface ServeFlags {
  readonly port: number
  readonly host: string
  readonly db: string | undefined
  readonly token: string | undefined
}

/** Runs `debugstate` and resolves to its exit code. Never rejects: an error is one line on `stderr`. */
export function runCommand(context: CommandContext): Promise<0 | 1 | 2> {
  const { stdout, stderr } = context
  const program = createProgram('debugstate', import.meta.url, (text) => stdout.write(text))
    .description(
      'Stores MCP sessions over HTTP, so that the next process of an agent resumes them.',
    )
    .addHelpText('after', '\nExit code: 0 done, 1 failed, 2 wrong command line.')
  program
    .command('serve')
    .summary('run the service until SIGTERM or Ctrl-C')
    .description(
      'Runs the service, and prints its address as the first line. The log goes to standard error, as lines of JSON. ' +
        'After SIGTERM or Ctrl-C, requests in flight may finish within 5 seconds; a second signal cuts them.',
    )
    .option('--port <n>', 'port; 0 means any free port', parseWholeNumber(0, 65_535), 7420)
    .option('--host <address>', '0.0.0.0 for all networks; needs a token', '127.0.0.1')
    .option(
      '--db <file>',
      'SQLite file, or redis://host:port (default: $DEBUGSTATE_DB, else .debugstate/state.db)',
    )
    .option(
      '--token <token>',
      'token for all agents; visible to every user of this machine: prefer $DEBUGSTATE_TOKEN',
    )
    .action((flags: ServeFlags) => serve(flags, context))
  return runProgram(program, context.args, (error) =>
    stderr.write(`debugstate: ${toLine(error)}\n`),
  )
}

/** Runs the service until SIGINT or SIGTERM. */
async function serve(flags: ServeFlags, context: CommandContext): Promise<void> {
  const { stdout, stderr, env } = context
  const token = flags.token ?? (env['DEBUGSTATE_TOKEN'] || undefined)
  if (token !== undefined && !isToken(token)) {
    const name = flags.token === undefined ? '$DEBUGSTATE_TOKEN' : '--token'
    throw new UsageError(`${name} cannot be used: ${TOKEN_RULE}`)
  }
  const tokens = token === undefined ? undefined : ([{ token, agentIds: '*' }] as const)
  const logger = createLogger(stderr)
  using signals = listenToStopSignals(context)
  await using store = await openStore(flags.db ?? (env['DEBUGSTATE_DB'] || DEFAULT_FILE))
  await store.get({ agentId: 'health', key: 'health' }) // a service with a broken store does not start
  await using server = createDebugStateServer({ store, tokens, logger })
  const url = await listen(server, flags)
  // The address comes last: its reader may send signals at once.
  stdout.write(`${url}\n`)
  logger.info({ signal: await signals.stopped }, 'asked to stop')
}

const DEFAULT_FILE = '.debugstate/state.db'

async function openStore(db: string): Promise<DebugStateStore & AsyncDisposable> {
  if (!/^[a-z]+:\/\//i.test(db)) {
    const { SqliteDebugStateStore } = await import('../server/sqlite-debug-state-store.ts')
    return new SqliteDebugStateStore(db)
  }
  const { RedisDebugStateStore } = await import('../server/redis-debug-state-store.ts')
  try {
    return new RedisDebugStateStore({ url: db })
  } catch (cause) {
    // The URL may contain a password, so it is not shown.
    const message = '--db must be a file, redis://host:port, or rediss://host:port for TLS'
    throw new UsageError(message, { cause })
  }
}

async function listen(server: DebugStateServer, { port, host }: ServeFlags): Promise<string> {
  try {
    return await server.listen({ port, host })
  } catch (cause) {
    if (!(cause instanceof DebugStateServerError)) throw cause
    const { code } = cause
    const [message, link] = splitErrorLink(cause.message)
    if (code === 'NOT_LOOPBACK') throw new UsageError(`${message}: add --token${link}`, { cause })
    const reason = cause.cause instanceof Error ? `: ${cause.cause.message}` : ''
    const advice = code === 'ADDRESS_IN_USE' ? ' (--port)' : reason
    throw new CommandError(`${message}${advice}${link}`, { cause })
  }
}

/** Creates the log of the service. Each line is written at once, so that a killed process loses none. */
function createLogger(stream: NodeJS.WritableStream): DebugStateLogger {
  return pino(
    {
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: (line) => stream.write(line) },
  )
}
