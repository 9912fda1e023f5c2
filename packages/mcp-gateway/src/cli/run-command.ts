import { debuglog } from 'node:util'

import { redacted } from '../auth/redacted.ts'
import { GatewayError } from '../gateway-error.ts'
import { packageVersion } from '../version.ts'
import { CommandError, UsageError } from './command-error.ts'
import type { Command, CommandContext } from './command.ts'

interface CommandEntry {
  readonly name: string
  /** One line. */
  readonly summary: string
  /** Loaded when it is asked for. */
  readonly load: () => Promise<Command>
}

const COMMANDS: readonly CommandEntry[] = [
  {
    name: 'serve',
    summary: 'offer the agents of a file, until SIGTERM or Ctrl-C (the default)',
    load: async () => (await import('./serve-command.ts')).serveCommand,
  },
  {
    name: 'check',
    summary: 'say what a file means, and which tools it makes',
    load: async () => (await import('./check-command.ts')).checkCommand,
  },
  {
    name: 'tools',
    summary: 'list the tools, who shares a name, and what was left out',
    load: async () => (await import('./tools-command.ts')).toolsCommand,
  },
  {
    name: 'call',
    summary: 'call one tool, and print its answer',
    load: async () => (await import('./call-command.ts')).callCommand,
  },
  {
    name: 'sessions',
    summary: 'list the sessions that clients have with gateways that share a store',
    load: async () => (await import('./sessions-command.ts')).sessionsCommand,
  },
  {
    name: 'token',
    summary: 'make a token for a caller, or hash one',
    load: async () => (await import('./token-command.ts')).tokenCommand,
  },
]

const HELP = `Usage: mcp-gateway [command] [file] [options]

Offers agents as an MCP server, as a YAML file says: without a name it is gateway.yaml.

Commands
${COMMANDS.map(({ name, summary }) => `  ${name.padEnd(21)}${summary}`).join('\n')}

Options
  --help               this text, or that of a command: mcp-gateway serve --help
  --version            the version of this package

Exit code: 0 done, 1 failed, 2 the command line was wrong.
`

/** Runs `mcp-gateway` and resolves to its exit code. Never rejects: what went wrong is said on `stderr`. */
export async function runCommand(context: CommandContext): Promise<0 | 1 | 2> {
  try {
    await dispatch(context)
    return 0
  } catch (error) {
    debuglog('mcp-gateway')('%o', error)
    for (const line of linesOf(error)) context.stderr.write(`mcp-gateway: ${line}\n`)
    return error instanceof CommandError ? error.exitCode : 1
  }
}

async function dispatch(context: CommandContext): Promise<void> {
  const { args, stdout } = context
  const [first = '', ...rest] = args
  if (first === '--version' || first === '-v') {
    stdout.write(`${packageVersion()}\n`)
    return
  }
  if (isHelp(first) || (first === 'help' && rest.length === 0)) {
    stdout.write(HELP)
    return
  }
  const asked = first === 'help' ? rest[0] : first
  const named = COMMANDS.find(({ name }) => name === asked)
  const entry = named ?? COMMANDS[0]
  if (entry === undefined || (!named && first === 'help') || (!named && isWord(first))) {
    throw new UsageError(`Unknown command ${JSON.stringify(asked)}: see mcp-gateway --help`)
  }
  const own = named ? rest : args
  const command = await entry.load()
  if (first === 'help' || optionsOf(own).some(isHelp)) stdout.write(command.help)
  else await command.run({ ...context, args: own })
}

/** What looks like a command, and not like a file. */
function isWord(text: string): boolean {
  return /^[a-z]+$/.test(text)
}

function isHelp(arg: string): boolean {
  return arg === '--help' || arg === '-h'
}

/** What stands before `--`. */
function optionsOf(args: readonly string[]): readonly string[] {
  const end = args.indexOf('--')
  return end === -1 ? args : args.slice(0, end)
}

/** One line; of a configuration or a command line, one for each thing that is wrong. */
function linesOf(error: unknown): readonly string[] {
  const text = error instanceof Error ? error.message : String(error)
  if (error instanceof UsageError) return text.split('\n')
  if (!GatewayError.is(error)) return [oneLine(text)]
  const cause = error.cause instanceof Error ? redacted(oneLine(error.cause.message)) : ''
  return (text.includes(cause) ? text : `${text} (${cause})`).split('\n')
}

function oneLine(text: string): string {
  return text.trim().replace(/\s*\n\s*/g, ' ')
}
