import {
  CommandError,
  createProgram,
  runProgram,
  toLine,
  UsageError,
} from '@x/internal/command-line'
import type { CommandContext } from '@x/internal/command-line'
import { Option, type Command } from 'commander'
import { redacted } from '../internal/redacted.ts'
import { GatewayError } from '../errors.ts'
import type { OuterSetting } from './config-file.ts'
import type { ToolCall } from './inspect.ts'

/** Configuration that a command reads if no file is named. */
const DEFAULT_FILE = 'gateway.yaml'

/** Runs `mcp-gateway` and resolves to its exit code. Never rejects: errors are lines on `stderr`. */
export function runCommand(context: CommandContext): Promise<0 | 1 | 2> {
  const { stdout, stderr } = context
  const program = createProgram('mcp-gateway', import.meta.url, (text) => stdout.write(text))
    .description(`Offers agents as an MCP server, as a YAML file says (default: ${DEFAULT_FILE}).`)
    .addHelpText('after', '\nExit code: 0 done, 1 failed, 2 wrong command line.')
  addServeCommand(program, context)
  addWorkCommand(program, context)
  addCheckCommand(program, context)
  addToolsCommand(program, context)
  addCallCommand(program, context)
  addSessionsCommand(program, context)
  addTokenCommand(program, context)
  return runProgram(program, context.args, (error) => {
    for (const line of toLines(error)) stderr.write(`mcp-gateway: ${line}\n`)
  })
}

/** Returns one line, or one line for each mistake in a configuration or a command line. */
function toLines(error: unknown): readonly string[] {
  const text = error instanceof Error ? error.message : String(error)
  if (error instanceof CommandError) return text.split('\n')
  if (!GatewayError.is(error)) return [toLine(error)]
  const cause = error.cause instanceof Error ? redacted(toLine(error.cause)) : ''
  return (text.includes(cause) ? text : `${text} (${cause})`).split('\n')
}

/** Options that set a setting of the file: the setting, the option, and what it does. */
const SETTING_OPTIONS = [
  ['http.port', '--port <n>', 'port, 0 for any free port'],
  ['http.host', '--host <address>', 'address to listen on'],
  ['http.insecure', '--insecure', 'serve everybody at an address that others can reach'],
  ['transport', '--stdio', 'serve one client on standard input and output instead'],
  ['log.level', '--log-level <level>', 'trace, debug, info, warn, error, silent'],
] as const

/** Adds these options to a command. @returns a function that reads their settings */
function addSettingOptions(command: Command): () => readonly OuterSetting[] {
  command.optionsGroup('Settings (they win over the environment, which wins over the file):')
  const options = SETTING_OPTIONS.map(([path, flags, text]) => {
    const option = new Option(flags, `${text} (${path})`)
    command.addOption(
      option.isBoolean() ? option.preset(path === 'transport' ? 'stdio' : 'true') : option,
    )
    return { option, path: path.split('.') }
  })
  command.optionsGroup('Options:')
  return () =>
    options.flatMap(({ option, path }) => {
      const text: unknown = command.getOptionValue(option.attributeName())
      return typeof text === 'string' ? [{ path, text, from: option.long ?? '' }] : []
    })
}

const SERVE_TEXT = `Offers the agents of a file until SIGTERM or Ctrl-C, and prints the address of the MCP endpoint as its first line. Logs go to standard error. After the first signal the gateway takes calls for http.drainDelayMs, and calls in flight may end within http.shutdownGraceMs. A second signal ends the process at once.

A source that can never work, such as a missing file, fails the start. A source that only cannot be reached now may come later.

A new version of the file takes effect with the next start.`

function addServeCommand(program: Command, context: CommandContext): void {
  const command = program
    .command('serve', { isDefault: true })
    .summary('offer the agents of a file, until SIGTERM or Ctrl-C (the default)')
    .description(SERVE_TEXT)
    .argument('[file]', 'configuration', DEFAULT_FILE)
  const toSettings = addSettingOptions(command)
  command
    .option('--no-work', 'leave queued tasks to other processes, such as mcp-gateway work')
    .option('--json', 'print the address as JSON: {"url"}')
    .action(async (file: string, flags: { work: boolean; json?: true }) => {
      // Without the name of a command, a single word is more likely a misspelled command than a file.
      if (file === context.args[0] && /^[a-z]+$/.test(file)) {
        throw new UsageError(`Unknown command ${JSON.stringify(file)}: see mcp-gateway --help`)
      }
      const { serveFile } = await import('./serve.ts')
      await serveFile({
        context,
        configFile: { file, env: context.env, flags: toSettings() },
        serves: true,
        works: flags.work,
        json: flags.json ?? false,
      })
    })
}

const WORK_TEXT = `Executes queued tasks of the agents of a file until SIGTERM or Ctrl-C, and serves no client. It prints one line when it works. The file is the same as for serve, with an engine: store: { type: redis, url: …, tasks: true }. After the first signal, other processes continue its tasks at once.`

function addWorkCommand(program: Command, context: CommandContext): void {
  program
    .command('work')
    .summary('execute queued tasks of the agents of a file, without HTTP')
    .description(WORK_TEXT)
    .argument('[file]', 'configuration', DEFAULT_FILE)
    .option('--json', 'print the line as JSON: {"tools"}')
    .action(async (file: string, { json = false }: { json?: boolean }) => {
      const { serveFile } = await import('./serve.ts')
      const configFile = { file, env: context.env, flags: [] }
      await serveFile({ context, configFile, serves: false, works: true, json })
    })
}

function addCheckCommand(program: Command, { env, stdout }: CommandContext): void {
  const command = program
    .command('check')
    .summary('print what a file means, and which tools it gives')
    .description(
      'Checks a file and the environment, and prints the configuration with all defaults and with masked secrets, and the tools of the agents. The exit code is 1 if anything is wrong, with a line for each mistake, also for mistakes that only matter when somebody is served.',
    )
    .argument('[file]', 'configuration', DEFAULT_FILE)
  const toSettings = addSettingOptions(command)
  command
    .option(
      '--json',
      'print JSON: {"config", "tools", "collisions", "dropped", "sources", "warnings"}',
    )
    .action(async (file: string, flags: { json?: true }) => {
      const { checkFile } = await import('./inspect.ts')
      const { json = false } = flags
      await checkFile({ file, env, flags: toSettings() }, { json, stdout })
    })
}

function addToolsCommand(program: Command, { env, stdout }: CommandContext): void {
  program
    .command('tools')
    .summary('list the tools, who shares a name, and what was left out')
    .description(
      'Lists the tools of the agents of a file, names that several agents wanted, and what was left out and why. The exit code is 1 if a source fails.',
    )
    .argument('[file]', 'configuration', DEFAULT_FILE)
    .option('--json', 'print JSON: {"tools", "collisions", "dropped", "sources", "warnings"}')
    .action(async (file: string, { json = false }: { json?: boolean }) => {
      const { listTools } = await import('./inspect.ts')
      await listTools({ file, env, flags: [] }, { json, stdout })
    })
}

function addCallCommand(program: Command, { env, stdout }: CommandContext): void {
  program
    .command('call')
    .summary('call one tool, and print its answer')
    .description(
      'Calls one tool of the agents of a file in this process, and prints its text. It needs no credential: who may read the file may call. The exit code is 1 if the tool failed; the error of its agent goes to standard error.',
    )
    .argument('<tool>', 'name of the tool')
    .argument('[message]', 'message for the agent')
    .option('--file <file>', 'configuration', DEFAULT_FILE)
    .option('--args <json>', 'arguments, for a tool that takes more than a message')
    .option('--json', 'print the result as MCP has it')
    .action(async (tool: string, message: string | undefined, flags: CallFlags) => {
      const { callTool } = await import('./inspect.ts')
      const { file, args, json = false } = flags
      await callTool({ file, env, flags: [] }, { tool, message, args }, { json, stdout })
    })
}

type CallFlags = Pick<ToolCall, 'args'> & { readonly file: string; readonly json?: true }

function addSessionsCommand(program: Command, { env, stdout }: CommandContext): void {
  program
    .command('sessions')
    .summary('list the sessions that clients have with gateways that share a store')
    .description(
      'Lists the sessions that clients have with the gateways of a file: name and version of the client, the protocol revision, and the start. A session and its caller are shown by the first digits of a hash, because no store has ids of sessions. This works for gateways that share a store in Redis. A single gateway keeps its sessions to itself, and their number in its metrics.',
    )
    .argument('[file]', 'configuration', DEFAULT_FILE)
    .option(
      '--json',
      'print JSON: [{"session", "caller", "client", "version", "revision", "startedAt"}]',
    )
    .action(async (file: string, { json = false }: { json?: boolean }) => {
      const { listSessions } = await import('./inspect.ts')
      stdout.write(await listSessions({ file, env, flags: [] }, json))
    })
}

const TOKEN_HELP = `
Give the token to the caller, and put the hash in the file:

  auth:
    mode: bearer
    tokens:
      ci: { sha256: <hash>, scopes: ["agent:support:call"] }`

function addTokenCommand(program: Command, { stdin, stdout }: CommandContext): void {
  program
    .command('token')
    .summary('make a token for a caller, or hash one')
    .description(
      'Makes a token that nobody can guess, and its hash for auth.tokens. The token is printed once and kept nowhere.',
    )
    .option('--stdin', 'hash the token from standard input, so that no shell remembers it')
    .option('--json', 'print JSON: {"token", "sha256"}; with --stdin {"sha256"}')
    .addHelpText('after', TOKEN_HELP)
    .action(async (flags: { stdin?: true; json?: true }) => {
      const { makeToken } = await import('./token.ts')
      const shown = await makeToken(flags.stdin && stdin)
      const lines = Object.entries(shown).map(([name, value]) => `${name.padEnd(8)}${value}`)
      stdout.write(`${flags.json ? JSON.stringify(shown) : lines.join('\n')}\n`)
    })
}
