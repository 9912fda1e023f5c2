import { debuglog } from 'node:util'
import { CommandError, lineFrom, UsageError } from './command-error.ts'
import type { Command, CommandContext } from './command.ts'
import { packageVersion } from './package-version.ts'

interface CommandEntry {
  readonly name: string
  /** One line. */
  readonly summary: string
  /** Loaded when it is asked for: a service needs no client, and a client no store. */
  readonly load: () => Promise<Command>
}

const COMMANDS: readonly CommandEntry[] = [
  {
    name: 'serve',
    summary: 'keep sessions, until SIGTERM or Ctrl-C',
    load: async () => (await import('./serve-command.ts')).serveCommand,
  },
  {
    name: 'list',
    summary: 'the keys of an agent, with age and size',
    load: async () => (await import('./list-command.ts')).listCommand,
  },
  {
    name: 'get',
    summary: 'print one value, in full',
    load: async () => (await import('./get-command.ts')).getCommand,
  },
  {
    name: 'delete',
    summary: 'take one value out',
    load: async () => (await import('./delete-command.ts')).deleteCommand,
  },
]

const HELP = `Usage: debugstate <command> [options]

Keeps MCP sessions over HTTP, so that the next process of an agent goes on where the last one stopped.

Commands
${COMMANDS.map(({ name, summary }) => `  ${name.padEnd(21)}${summary}`).join('\n')}

Options
  --help               this text, or that of a command: debugstate serve --help
  --version            the version of this package

Exit code: 0 done, 1 failed, 2 the command line was wrong.
`

/** Runs `debugstate` and resolves to its exit code. Never rejects: what went wrong is one line on `stderr`. */
export async function runCommand(context: CommandContext): Promise<0 | 1 | 2> {
  try {
    await dispatch(context)
    return 0
  } catch (error) {
    debuglog('debugstate')('%o', error)
    context.stderr.line(`debugstate: ${context.stderr.paint('red', lineFrom(error))}`)
    return error instanceof CommandError ? error.exitCode : 1
  }
}

async function dispatch(context: CommandContext): Promise<void> {
  const [first, ...rest] = context.args
  const { stdout } = context
  if (first === undefined) throw new UsageError('Which command? See debugstate --help')
  if (first === '--version' || first === '-v') return stdout.line(packageVersion())
  const asked = first === 'help' ? rest[0] : first
  if (asked === undefined || isHelp(first)) return stdout.write(HELP)
  const entry = COMMANDS.find(({ name }) => name === asked)
  if (entry === undefined) {
    const what = asked.startsWith('-') ? 'option' : 'command'
    throw new UsageError(`Unknown ${what} ${JSON.stringify(asked)}: see debugstate --help`)
  }
  const command = await entry.load()
  if (first === 'help' || optionsOf(rest).some(isHelp)) return stdout.write(command.help)
  await command.run({ ...context, args: rest })
}

function isHelp(arg: string): boolean {
  return arg === '--help' || arg === '-h'
}

/** What stands before `--`; the rest are names, however they look. */
function optionsOf(args: readonly string[]): readonly string[] {
  const end = args.indexOf('--')
  return end === -1 ? args : args.slice(0, end)
}
