import { createDebugStateServer } from '../server/create-debug-state-server.ts'
import type { DebugStateServer } from '../server/create-debug-state-server.ts'
import { errorFields } from '../server/debug-state-logger.ts'
import type { DebugStateLogger } from '../server/debug-state-logger.ts'
import { DebugStateServerError } from '../server/debug-state-server-error.ts'
import type { DebugStateStore } from '../server/debug-state-store.ts'
import { CommandError } from './command-error.ts'
import type { Command, CommandContext } from './command.ts'
import { openStore } from './open-store.ts'
import { checkHost, DEFAULT_FILE, DEFAULT_PORT, serveSettingsFrom } from './serve-settings.ts'
import type { ServeSettings } from './serve-settings.ts'
import { serviceLog } from './service-log.ts'
import { stopSignals } from './stop-signals.ts'
import { tokenSourceFrom } from './token-source.ts'
import type { TokenSource } from './token-source.ts'

export const serveCommand: Command = {
  help: `Usage: debugstate serve [options]

Keeps what agents store, and prints the address of the service as its first line. Logs go to standard
error. SIGTERM or Ctrl-C lets requests in flight finish, for 5 seconds at most; a second one does not.

Where to listen
  --port <n>             0 takes a free one (default: ${DEFAULT_PORT})
  --host <address>       0.0.0.0 for all networks; needs tokens (default: 127.0.0.1)

What to keep
  --db <file>            SQLite file (default: $DEBUGSTATE_DB, else ${DEFAULT_FILE})
  --synchronous <mode>   normal survives a killed process, full a power cut too (default: normal)
  --store <kind>         sqlite, redis or memory (default: sqlite)
  --redis-url <url>      redis://host:port (default: $DEBUGSTATE_REDIS_URL, where a password is safe)
  --ttl <time>           how long after its last write: 90s, 15m, 12h, 30d (default: 30d)
  --max-bytes <n>        largest value (default: 65536)
  --path-prefix <path>   before the agent id (default: agenthub_/design/debugstate)

Who may use it
  --token-file <file>    one token a line, with the agents it opens (default: $DEBUGSTATE_TOKEN_FILE):
                           # comment
                           <token> <agentId>,<agentId>
                           <token> *
                         SIGHUP reads it again. In $DEBUGSTATE_TOKENS, ";" stands for a line's end.
                         Without tokens the service listens on this machine only.

What to say
  --log-level <level>    debug, info, warn, error, silent (default: $DEBUGSTATE_LOG_LEVEL, else info)
  --log-format <format>  json or text (default: text on a terminal, else json)
  --json                 print the address as JSON: {"url", "store", "tokens"}
  --help                 this text
`,
  run: serve,
}

async function serve(context: CommandContext): Promise<void> {
  const { env, stderr } = context
  const settings = serveSettingsFrom(context.args, env)
  const tokens = await tokenSourceFrom(settings.tokenFile, env)
  checkHost(settings.host, tokens !== undefined)
  const format = settings.logFormat ?? (stderr.isTerminal ? 'text' : 'json')
  const logger = serviceLog(stderr, { level: settings.logLevel, format })
  using signals = stopSignals(context)
  const store = await openStore(settings.store)
  try {
    await serveStore({ context, settings, tokens, logger, store, stopped: signals.stopped })
  } finally {
    if (!(await closeStore(store, logger))) context.exit(1)
  }
}

interface ServeOptions {
  readonly context: CommandContext
  readonly settings: ServeSettings
  readonly tokens: TokenSource | undefined
  readonly logger: DebugStateLogger
  readonly store: DebugStateStore
  readonly stopped: Promise<NodeJS.Signals>
}

async function serveStore(options: ServeOptions): Promise<void> {
  const { context, settings, tokens, logger, store, stopped } = options
  const { bodyBytes, ttlMs, pathPrefix } = settings
  await using server = createDebugStateServer({
    store,
    tokens: tokens?.grants,
    limits: { bodyBytes, ttlMs },
    pathPrefix,
    logger,
  })
  const url = await listen(server, settings)
  if (tokens?.warning !== undefined) logger.warn({}, tokens.warning)
  const undo = reloadOnHangup(context, { tokens, server, logger })
  greet(context, { url, settings, tokens })
  try {
    logger.info({ signal: await stopped }, 'asked to stop')
  } finally {
    undo()
  }
}

async function listen(server: DebugStateServer, { port, host }: ServeSettings): Promise<string> {
  try {
    return await server.listen({ port, host })
  } catch (cause) {
    if (!(cause instanceof DebugStateServerError)) throw cause
    const reason = cause.cause instanceof Error ? `: ${cause.cause.message}` : ''
    const isKnown = cause.code === 'ADDRESS_IN_USE'
    throw new CommandError(isKnown ? `${cause.message} (--port)` : `${cause.message}${reason}`, {
      cause,
    })
  }
}

interface Greeting {
  readonly url: string
  readonly settings: ServeSettings
  readonly tokens: TokenSource | undefined
}

function greet({ stdout }: CommandContext, { url, settings, tokens }: Greeting): void {
  const { store } = settings
  if (settings.json) {
    const count = tokens?.grants.length ?? 0
    stdout.line(JSON.stringify({ url, store: store.kind, tokens: count }))
    return
  }
  stdout.line(url)
  if (!stdout.isTerminal) return
  const place = store.kind === 'sqlite' ? store.file : store.kind
  const access = tokens
    ? `for ${tokens.grants.length === 1 ? 'one token' : `${tokens.grants.length} tokens`}`
    : 'without tokens, so for this machine only'
  stdout.line(stdout.paint('dim', `Keeps sessions in ${place}, ${access}. Ctrl-C stops it.`))
}

interface Reloading {
  readonly tokens: TokenSource | undefined
  readonly server: DebugStateServer
  readonly logger: DebugStateLogger
}

/** A list that is wrong changes nothing, and is told in the log. */
function reloadOnHangup(
  { onSignal }: CommandContext,
  { tokens, server, logger }: Reloading,
): () => void {
  const reload = tokens?.reload
  if (reload === undefined) return () => {}
  return onSignal('SIGHUP', () => {
    void reload()
      .then((grants) => server.replaceTokens(grants))
      .catch((error: unknown) => logger.error(errorFields(error), 'tokens not replaced'))
  })
}

/** `false`: it does not end, and must not keep the process. */
async function closeStore(store: DebugStateStore, logger: DebugStateLogger): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<'late'>((resolve) => {
    timer = setTimeout(() => resolve('late'), CLOSE_STORE_MS)
  })
  try {
    if ((await Promise.race([store.close(), late])) !== 'late') return true
    logger.error({}, 'the store does not close')
    return false
  } catch (error) {
    logger.error(errorFields(error), 'the store did not close well')
    return true
  } finally {
    clearTimeout(timer)
  }
}

const CLOSE_STORE_MS = 2000
