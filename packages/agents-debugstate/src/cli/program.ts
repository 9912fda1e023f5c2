import {
  createProgram,
  parseWholeNumber,
  runProgram,
  toLine,
  UsageError,
} from '@x/internal/command-line'
import type { CommandContext } from '@x/internal/command-line'
import { InvalidArgumentError, Option } from 'commander'
import type { Command } from 'commander'
import { AGENT_ID_RULE, isAgentId } from '../server/protocol.ts'
import type { ClientFlags } from './client-commands.ts'
import type { ServeFlags } from './serve.ts'

/** Runs `debugstate` and resolves to its exit code. Never rejects: an error is one line on `stderr`. */
export function runCommand(context: CommandContext): Promise<0 | 1 | 2> {
  const { stdout, stderr } = context
  const program = createProgram('debugstate', import.meta.url, (text) => stdout.write(text))
    .description(
      'Stores MCP sessions over HTTP, so that the next process of an agent resumes them.',
    )
    .addHelpText('after', '\nExit code: 0 done, 1 failed, 2 wrong command line.')
  addServeCommand(program, context)
  addClientCommands(program, context)
  return runProgram(program, context.args, (error) =>
    stderr.write(`debugstate: ${toLine(error)}\n`),
  )
}

const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent']

const SERVE_HELP = `
Each line of a token file is a token and the agents that it gives access to:
  # comment
  <token> <agentId>,<agentId>
  <token> *
SIGHUP reads the file again. $DEBUGSTATE_TOKENS may hold such a list instead, with ";" between lines.
Without tokens the service listens on this machine only.`

function addServeCommand(program: Command, context: CommandContext): void {
  program
    .command('serve')
    .summary('run the service until SIGTERM or Ctrl-C')
    .description(
      'Runs the service, and prints its address as the first line. The log goes to standard error, as lines of JSON. ' +
        'After SIGTERM or Ctrl-C, requests in flight may finish within 5 seconds; a second signal cuts them.',
    )
    .optionsGroup('Where to listen:')
    .option('--port <n>', 'port; 0 means any free port', parseWholeNumber(0, 65_535), 7420)
    .option('--host <address>', '0.0.0.0 for all networks; needs tokens', '127.0.0.1')
    .optionsGroup('What to store:')
    .option('--db <file>', 'SQLite file (default: $DEBUGSTATE_DB, else .debugstate/state.db)')
    .addOption(
      new Option(
        '--synchronous <mode>',
        'normal survives a killed process, full also a power cut (default: normal)',
      ).choices(['normal', 'full']),
    )
    .addOption(
      new Option('--store <kind>', 'kind of store (default: sqlite)').choices([
        'sqlite',
        'redis',
        'memory',
      ]),
    )
    .option('--redis-url <url>', 'redis://host:port (default: $DEBUGSTATE_REDIS_URL)')
    .option('--ttl <time>', 'lifetime of a value: 90s, 15m, 12h, 30d (default: 30d)', parseDuration)
    .option('--max-bytes <n>', 'largest value (default: 65536)', parseWholeNumber(1, 16_777_216))
    .option('--path-prefix <path>', PATH_PREFIX_HELP)
    .optionsGroup('Who may use it:')
    .option('--token-file <file>', 'list of tokens (default: $DEBUGSTATE_TOKEN_FILE)')
    .optionsGroup('Log:')
    .addOption(
      new Option(
        '--log-level <level>',
        'lowest level in the log (default: $DEBUGSTATE_LOG_LEVEL, else info)',
      ).choices(LOG_LEVELS),
    )
    .addHelpText('after', SERVE_HELP)
    .action(async (flags: ServeFlags) => {
      const { serve } = await import('./serve.ts')
      await serve({ ...flags, logLevel: flags.logLevel ?? getLogLevel(context.env) }, context)
    })
}

const PATH_PREFIX_HELP = 'path before the agent id (default: agenthub_/design/debugstate)'

function addClientCommands(program: Command, context: CommandContext): void {
  addClientCommand(program, 'list')
    .summary('list the keys of an agent, with size and age')
    .description('Lists the keys of an agent, without their values.')
    .option('--json', 'print JSON: {"agentId", "keys": […], "truncated"}')
    .action(
      async (agentId: string, flags: ClientFlags & { readonly json: boolean | undefined }) => {
        const { listKeys } = await import('./client-commands.ts')
        await listKeys(agentId, flags, context)
      },
    )
  addClientCommand(program, 'get')
    .argument('<key>', 'key of the value')
    .summary('print one value')
    .description(
      'Prints a value: a session id, or the record of a session. With this value, anyone can use the session. ' +
        'Without a terminal it is printed byte for byte, without a line end. The exit code is 1 if there is none.',
    )
    .action(async (agentId: string, key: string, flags: ClientFlags) => {
      const { getValue } = await import('./client-commands.ts')
      await getValue({ agentId, key }, flags, context)
    })
  addClientCommand(program, 'delete')
    .argument('<key>', 'key of the value')
    .summary('delete one value')
    .description(
      'Deletes a value. The session on its MCP server stays. The exit code is 1 if there is no value.',
    )
    .action(async (agentId: string, key: string, flags: ClientFlags) => {
      const { deleteValue } = await import('./client-commands.ts')
      await deleteValue({ agentId, key }, flags, context)
    })
}

function addClientCommand(program: Command, name: string): Command {
  return program
    .command(name)
    .argument('<agentId>', 'id of the agent', parseAgentId)
    .option('--url <url>', 'address of the service (default: $DEBUGSTATE_URL, else $UIPATH_URL)')
    .option(
      '--token <token>',
      'visible to every user of this machine: prefer $DEBUGSTATE_TOKEN ' +
        '(default: $DEBUGSTATE_TOKEN, else $UIPATH_ACCESS_TOKEN for $UIPATH_URL)',
    )
    .option('--path-prefix <path>', PATH_PREFIX_HELP)
}

function parseAgentId(text: string): string {
  if (isAgentId(text)) return text
  throw new InvalidArgumentError(`${AGENT_ID_RULE}.`)
}

function getLogLevel(env: CommandContext['env']): string {
  const level = env['DEBUGSTATE_LOG_LEVEL'] || 'info'
  if (LOG_LEVELS.includes(level)) return level
  throw new UsageError(`DEBUGSTATE_LOG_LEVEL must be ${LOG_LEVELS.join(', ')}, not "${level}"`)
}

/** Parses a time such as `90s`, `15m`, `12h` or `30d`. Returns milliseconds. */
export function parseDuration(text: string): number {
  const [, count, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? []
  const ms = Number(count) * (UNIT_MS.get(unit ?? '') ?? Number.NaN)
  if (ms > 0) return ms
  throw new InvalidArgumentError('It must be a time such as 90s, 15m, 12h or 30d.')
}

const UNIT_MS: ReadonlyMap<string, number> = new Map([
  ['s', 1000],
  ['m', 60_000],
  ['h', 3_600_000],
  ['d', 86_400_000],
])
