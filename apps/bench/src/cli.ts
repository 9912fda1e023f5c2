import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import type { ParseArgsOptionsConfig } from 'node:util'
import { ensureInstalled as isInstalled } from '../../../.ci/ensure-installed.ts'

/** The folder of this package. Processes that are started from here run in it. */
export const HOME: string = fileURLToPath(new URL('..', import.meta.url))

/** An error that the user can correct. It is shown as one line, without a stack trace. */
export class UserError extends Error {
  override readonly name = 'UserError'
}

/** Options of all commands. */
const COMMON = {
  help: { type: 'boolean', short: 'h', default: false },
  json: { type: 'boolean', default: false },
} as const

type Values<Options extends ParseArgsOptionsConfig> = ReturnType<
  typeof parseArgs<{ options: Options & typeof COMMON }>
>['values']

interface CommandLine<Options extends ParseArgsOptionsConfig> {
  readonly name: string
  /** Printed for `--help`. */
  readonly help: string
  readonly options: Options
  /** True if the command takes words without an option. */
  readonly takesNames: boolean
}

/** Parses the command line, runs a command to its end, and sets the exit code of the process. */
export async function runCommand<const Options extends ParseArgsOptionsConfig>(
  { name, help, options, takesNames }: CommandLine<Options>,
  command: (values: Values<Options>, names: readonly string[]) => Promise<number>,
): Promise<void> {
  try {
    const args = process.argv.slice(2).filter((arg) => arg !== '--') // pnpm passes it on
    const config = { args, options: { ...options, ...COMMON }, allowPositionals: takesNames }
    const { values, positionals } = parsed(name, () => parseArgs(config))
    if ('help' in values && values.help === true) console.log(help)
    else process.exitCode = await command(values as Values<Options>, positionals)
  } catch (error) {
    if (error instanceof UserError) process.stderr.write(`${name}: ${error.message}\n`)
    else console.error(error)
    process.exitCode = 1
  }
}

/** @throws UserError that names the wrong option. */
function parsed<Result>(command: string, parse: () => Result): Result {
  try {
    return parse()
  } catch (cause) {
    const text = cause instanceof Error ? cause.message : String(cause)
    throw new UserError(`${text.split('\n')[0] ?? ''} (see pnpm ${command} --help)`, { cause })
  }
}

/** @throws UserError unless the text is a whole number of at least `least`. */
export function wholeNumber(option: string, text: string, least: number): number {
  const number = Number(text)
  if (Number.isInteger(number) && number >= least) return number
  throw new UserError(`${option} must be an integer of at least ${least}: ${text}`)
}

/** @throws UserError if this package is not installed, and its installation fails. */
export async function ensureInstalled(): Promise<void> {
  if (await isInstalled(HOME)) return
  throw new UserError('apps/bench could not be installed: see the output of pnpm above')
}
