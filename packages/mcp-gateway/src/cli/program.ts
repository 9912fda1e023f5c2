import { hash, randomBytes } from 'node:crypto'
import type { Readable } from 'node:stream'
import {
  CommandError,
  createProgram,
  runProgram,
  toLine,
  UsageError,
} from '@x/internal/command-line'
import { splitErrorLink, withoutErrorLink } from '@x/internal'
import type { CommandContext } from '@x/internal/command-line'
import { Option, type Command } from 'commander'
import { redacted } from '../internal/redacted.ts'
import { GatewayError } from '../errors.ts'
import { HASHED, hashedTokenFrom } from '../http/auth/bearer.ts'
import type { SettingFlag } from './config-file.ts'

/** Configuration that a command reads if no file is named. */
const DEFAULT_FILE = 'gateway.yaml'

/** Runs `mcp-gateway` and resolves to its exit code. Never rejects: errors are lines on `stderr`. */
export function runCommand(context: CommandContext): Promise<0 | 1 | 2> {
  const { stdout, stderr } = context
  const program = createProgram('mcp-gateway', import.meta.url, (text) => stdout.write(text))
    .description(
      `Offers agents as an MCP server, as a YAML file or a langgraph.json says (default: ${DEFAULT_FILE}).`,
    )
    .addHelpText('after', '\nExit code: 0 done, 1 failed, 2 wrong command line.')
  addServeCommand(program, context)
  addInitCommand(program, context)
  addWorkCommand(program, context)
  addCheckCommand(program, context)
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
  const cause = error.cause instanceof Error ? redacted(withoutErrorLink(toLine(error.cause))) : ''
  const [own, link] = splitErrorLink(text)
  return (text.includes(cause) ? text : `${own} (${cause})${link}`).split('\n')
}

/** Options that set a setting of the file: the setting, the option, and what it does. */
const SETTING_OPTIONS = [
  ['http.port', '--port <n>', 'port, 0 for any free port'],
  ['http.host', '--host <address>', 'address to listen on'],
  ['http.insecure', '--insecure', 'serve everybody at an address that others can reach'],
  ['log.level', '--log-level <level>', 'trace, debug, info, warn, error, silent'],
] as const

/** Adds these options to a command, but for some settings. @returns a function that reads their settings */
function addSettingOptions(
  command: Command,
  ...without: readonly string[]
): () => readonly SettingFlag[] {
  command.optionsGroup('Settings (they win over the file):')
  const shown = SETTING_OPTIONS.filter(([path]) => !without.includes(path))
  const options = shown.map(([path, flags, text]) => {
    const option = new Option(flags, `${text} (${path})`)
    command.addOption(option.isBoolean() ? option.preset('true') : option)
    return { option, path: path.split('.') }
  })
  command.optionsGroup('Options:')
  return () =>
    options.flatMap(({ option, path }) => {
      const text: unknown = command.getOptionValue(option.attributeName())
      return typeof text === 'string' ? [{ path, text, from: option.long ?? '' }] : []
    })
}

const STDIO_TEXT = 'serve one client on standard input and output instead of HTTP'

const SERVE_TEXT = `Offers the agents of a file until SIGTERM or Ctrl-C, and prints the address of the MCP endpoint as its first line. Logs go to standard error. After the first signal the gateway takes calls for http.drainDelayMs, and calls in flight may end within http.shutdownGraceMs. A second signal ends the process at once.

A source that can never work, such as a missing file, fails the start. A source that only cannot be reached now may come later.

A new version of the file takes effect with the next start.`

function addServeCommand(program: Command, context: CommandContext): void {
  const command = program
    .command('serve', { isDefault: true })
    .summary('offer the agents of a file, until SIGTERM or Ctrl-C (the default)')
    .description(SERVE_TEXT)
    .argument('[file]', 'configuration, or a langgraph.json', DEFAULT_FILE)
  const toSettings = addSettingOptions(command)
  command
    .option('--stdio', STDIO_TEXT)
    .option('--no-work', 'leave queued tasks to other processes, such as mcp-gateway work')
    .option('--json', 'print the address as JSON: {"url"}')
    .action(async (file: string, flags: { work: boolean; stdio?: true; json?: true }) => {
      // Without the name of a command, a single word is more likely a misspelled command than a file.
      if (file === context.args[0] && /^[a-z]+$/.test(file)) {
        throw new UsageError(`Unknown command ${JSON.stringify(file)}: see mcp-gateway --help`)
      }
      const { serveFile } = await import('./serve.ts')
      await serveFile({
        context,
        configFile: { file, env: context.env, flags: toSettings() },
        serves: flags.stdio ? 'stdio' : 'http',
        works: flags.work,
        json: flags.json ?? false,
      })
    })
}

const INIT_TEXT = `Writes the files that a first gateway needs, lists them, and says which command comes next. It asks nothing, and never changes a file that exists.

With a langgraph.json in the folder, in its project or in a folder below, this is a ${DEFAULT_FILE} that offers its graphs. Without one, it also writes a langgraph.json and a first graph without a model, and in an empty folder a package.json.`

function addInitCommand(program: Command, { env, stdout }: CommandContext): void {
  program
    .command('init')
    .summary('write a first configuration, for the graphs of a project or for a new one')
    .description(INIT_TEXT)
    .argument('[folder]', 'folder to write to, which is created if it is missing', '.')
    .option(
      '--graph <path:export>',
      'graph to offer if there is no langgraph.json: ./agent.ts:agent',
    )
    .action(async (folder: string, { graph }: { graph?: string }) => {
      const { initFolder } = await import('./init.ts')
      await initFolder({ folder, graph, env, stdout })
    })
}

const WORK_TEXT = `Executes queued tasks of the agents of a file until SIGTERM or Ctrl-C, and serves no client. It prints one line when it works. The file is the same as for serve, with an engine: store: { url: …, tasks: 10 }. After the first signal, other processes continue its tasks at once.

It answers /healthz, /readyz and http.metricsPath at http.host and http.port. Beside another process on the same machine, give it another --port.`

function addWorkCommand(program: Command, context: CommandContext): void {
  const command = program
    .command('work')
    .summary('execute queued tasks of the agents of a file, without clients')
    .description(WORK_TEXT)
    .argument('[file]', 'configuration, or a langgraph.json', DEFAULT_FILE)
  const toSettings = addSettingOptions(command, 'http.insecure')
  command
    .option('--json', 'print the line as JSON: {"tools", "url"}')
    .action(async (file: string, { json = false }: { json?: boolean }) => {
      const { serveFile } = await import('./serve.ts')
      const configFile = { file, env: context.env, flags: toSettings() }
      await serveFile({ context, configFile, serves: undefined, works: true, json })
    })
}

function addCheckCommand(program: Command, { env, stdout }: CommandContext): void {
  const command = program
    .command('check')
    .summary('print the tools, the warnings and the settings of a file')
    .description(
      'Checks a file, and prints all settings with their defaults and without secrets, the tools of the agents, why others are left out, the skills, and warnings. The exit code is 1 if anything is wrong, with a line for each mistake, also for mistakes that only matter when clients are served.',
    )
    .argument('[file]', 'configuration, or a langgraph.json', DEFAULT_FILE)
  const toSettings = addSettingOptions(command)
  command
    .option('--stdio', STDIO_TEXT)
    .option(
      '--json',
      'print JSON: {"tools", "ownTools", "skills", "collisions", "dropped", "sources", "warnings", "settings"}',
    )
    .action(async (file: string, flags: { stdio?: true; json?: true }) => {
      const { checkFile } = await import('./check.ts')
      const { stdio = false, json = false } = flags
      await checkFile({ configFile: { file, env, flags: toSettings() }, stdio, json, stdout })
    })
}

const TOKEN_HELP = `
Give the token to the caller, and put the hash in the file:

  auth:
    tokens:
      ci: { token: "sha256:…", scopes: ["agent:support:call"] }`

function addTokenCommand(program: Command, { stdin, stdout }: CommandContext): void {
  program
    .command('token')
    .summary('make a token for a caller, or hash one')
    .description(
      'Makes a token that nobody can guess, and its hash for auth.tokens. The token is printed once and kept nowhere.',
    )
    .option('--stdin', 'hash the token from standard input, so that no shell remembers it')
    .option('--json', 'print JSON: {"token", "hash"}; with --stdin {"hash"}')
    .addHelpText('after', TOKEN_HELP)
    .action(async (flags: { stdin?: true; json?: true }) => {
      const shown = await makeToken(flags.stdin && stdin)
      const lines = Object.entries(shown).map(([name, value]) => `${name.padEnd(8)}${value}`)
      stdout.write(`${flags.json ? JSON.stringify(shown) : lines.join('\n')}\n`)
    })
}

/** Returns a new token and its hash, or only the hash of the token that `stdin` gives. */
async function makeToken(
  stdin: Readable | undefined,
): Promise<{ readonly token?: string; readonly hash: string }> {
  const token = stdin ? await readToken(stdin) : randomBytes(32).toString('base64url')
  const hashed = HASHED + hash('sha256', token)
  return stdin ? { hash: hashed } : { token, hash: hashed }
}

const MAX_TOKEN_CHARS = 8192

async function readToken(stdin: AsyncIterable<unknown>): Promise<string> {
  let text = ''
  for await (const chunk of stdin) {
    text += String(chunk)
    if (text.length > MAX_TOKEN_CHARS) throw new CommandError('That is too long for a token')
  }
  const token = text.replace(/\r?\n$/, '')
  if (token.trim() === '') throw new CommandError('There was no token on standard input')
  hashedTokenFrom('of standard input', { token }) // the gateway sees only the hash, and cannot refuse it
  return token
}
