// Code of the command-line programs. A separate entry, because nothing else needs commander.
import type { Readable, Writable } from 'node:stream'
import { debuglog } from 'node:util'
import { Command, CommanderError, InvalidArgumentError } from 'commander'
import { readPackageVersion } from './package-version.ts'
export { PACKAGE_MANAGERS, runningPackageManager } from './package-managers.ts'
export type { PackageManager } from './package-managers.ts'

/** An error that the user can fix. It is shown as one line, without a stack. */
export class CommandError extends Error {
  override readonly name: string = 'CommandError'
  /** Exit code of the process: 2 for a wrong command line, 1 for all else. */
  readonly exitCode: 1 | 2 = 1
}

/** The command line is wrong. */
export class UsageError extends CommandError {
  override readonly name = 'UsageError'
  override readonly exitCode = 2
}

/** Returns the message of an error as one line. */
export function toLine(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  return text.trim().replace(/\s*\n\s*/g, ' ')
}

/**
 * Creates the program of a command. It writes help with `write`, and throws where commander would end the process.
 *
 * @param url `import.meta.url` of a module of the package, whose version `--version` prints
 */
export function createProgram(name: string, url: string, write: (text: string) => void): Command {
  return new Command(name)
    .version(readPackageVersion(url), '-v, --version', 'print the version of this package')
    .helpOption('-h, --help', 'print this text')
    .exitOverride()
    .configureOutput({
      writeOut: write,
      writeErr: () => {}, // runProgram() reports errors
      getOutHelpWidth: () => 100,
    })
}

/** Returns the parser of an option whose value is a whole number. */
export function parseWholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const number = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
    if (number >= least && number <= most) return number
    throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`)
  }
}

/** Runs a program and resolves to the exit code. Never rejects: `onError` receives the error. */
export async function runProgram(
  program: Command,
  args: readonly string[],
  onError: (error: unknown) => void,
): Promise<0 | 1 | 2> {
  try {
    await program.parseAsync(args, { from: 'user' })
    return 0
  } catch (thrown) {
    const error = thrown instanceof CommanderError ? toUsageError(thrown, program, args) : thrown
    if (error === undefined) return 0
    debuglog(program.name())('%o', error)
    onError(error)
    return error instanceof CommandError ? error.exitCode : 1
  }
}

/** Returns `undefined` if commander has printed a help text or the version. */
function toUsageError(
  error: CommanderError,
  program: Command,
  args: readonly string[],
): UsageError | undefined {
  if (error.exitCode === 0) return undefined
  const command = program.commands.find((each) => each.name() === args[0])
  const help = `(see ${[program.name(), ...(command ? [command.name()] : [])].join(' ')} --help)`
  if (error.code === 'commander.help') return new UsageError(`A command is missing ${help}`)
  const text = error.message.replace(/^error: /, '')
  // The value after an unknown option may be a secret.
  const safe =
    error.code === 'commander.unknownOption' ? text.replace(/=[^]*?'(?=\n|$)/, "'") : text
  return new UsageError(toLine(`${safe} ${help}`), { cause: error })
}

/** The process that a command runs in. */
export interface CommandContext {
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  readonly stdin: Readable
  /** For results. */
  readonly stdout: Writable & { readonly isTTY?: boolean }
  /** For errors and logs. */
  readonly stderr: Writable
  /** Listens to a signal of the operating system. Returns a function that stops listening. */
  readonly onSignal: (signal: NodeJS.Signals, listener: () => void) => () => void
  /** Ends the process at once. */
  readonly exit: (code: number) => void
}

/** Runs a command in this process, and sets its exit code. @param stdout for results */
export async function runInProcess(
  run: (context: CommandContext) => Promise<number>,
  stdout: CommandContext['stdout'] = process.stdout,
): Promise<void> {
  // The reader of our output may close it early: `… --help | head -1`.
  for (const stream of [stdout, process.stderr]) stream.on('error', () => {})
  process.exitCode = await run({
    args: process.argv.slice(2),
    env: process.env,
    stdin: process.stdin,
    stdout,
    stderr: process.stderr,
    onSignal: (signal, listener) => {
      process.on(signal, listener)
      return () => void process.off(signal, listener)
    },
    exit: (code) => process.exit(code),
  })
}

export interface StopSignals extends Disposable {
  /** Resolves with the first SIGINT or SIGTERM. */
  readonly stopped: Promise<NodeJS.Signals>
}

/** Waits for SIGINT or SIGTERM. A second signal ends the process at once. */
export function listenToStopSignals({
  onSignal,
  exit,
}: Pick<CommandContext, 'onSignal' | 'exit'>): StopSignals {
  const undo: (() => void)[] = []
  const stopped = new Promise<NodeJS.Signals>((resolve) => {
    let count = 0
    for (const [signal, code] of STOP_SIGNALS) {
      undo.push(onSignal(signal, () => (++count === 1 ? resolve(signal) : exit(code))))
    }
  })
  return {
    stopped,
    [Symbol.dispose]: () => {
      for (const stopListening of undo) stopListening()
    },
  }
}

/** With the exit code of a process that the signal killed. */
const STOP_SIGNALS = [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const
