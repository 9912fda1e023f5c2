import { parseArgs } from 'node:util'
import type { ParseArgsConfig } from 'node:util'
import { UserError } from './user-error.ts'

/** @throws UserError that names the option. */
export function commandOptionsFrom<const Config extends ParseArgsConfig>(
  config: Config,
  command: string,
): ReturnType<typeof parseArgs<Config>> {
  try {
    return parseArgs(config)
  } catch (cause) {
    const text = cause instanceof Error ? cause.message : String(cause)
    throw new UserError(`${text.split('\n')[0] ?? ''} (see pnpm ${command} --help)`, { cause })
  }
}
