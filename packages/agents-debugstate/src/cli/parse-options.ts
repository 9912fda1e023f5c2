import { parseArgs } from 'node:util'
import type { ParseArgsConfig, ParseArgsOptionsConfig } from 'node:util'
import { UsageError } from './command-error.ts'

/** Options and positionals, as `parseArgs` of Node reads them. @throws UsageError that names the option */
export function parseOptions<const Options extends ParseArgsOptionsConfig>(
  command: string,
  args: readonly string[],
  options: Options,
): Parsed<Options> {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true, strict: true })
  } catch (cause) {
    const text = cause instanceof Error ? cause.message : String(cause)
    const [sentence = ''] = text.split(/\.(?:\s|$)/)
    throw new UsageError(`${sentence} (see debugstate ${command} --help)`, { cause })
  }
}

type Parsed<Options extends ParseArgsOptionsConfig> = ReturnType<
  typeof parseArgs<ParseArgsConfig & { options: Options; allowPositionals: true; strict: true }>
>

/** The positionals, exactly as many as there are names. @throws UsageError that names what is missing */
export function positionalsFrom(
  command: string,
  given: readonly string[],
  names: readonly string[],
): readonly string[] {
  const missing = names.slice(given.length).map((name) => `<${name}>`)
  if (missing.length > 0) {
    throw new UsageError(`Missing ${missing.join(' ')} (see debugstate ${command} --help)`)
  }
  const extra = given[names.length]
  if (extra !== undefined) {
    throw new UsageError(`Unexpected ${JSON.stringify(extra)} (see debugstate ${command} --help)`)
  }
  return given
}
