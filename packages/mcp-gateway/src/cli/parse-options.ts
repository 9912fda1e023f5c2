import { parseArgs } from 'node:util'
import type { ParseArgsConfig, ParseArgsOptionsConfig } from 'node:util'

import { UsageError } from './command-error.ts'

/** Options and positionals. @throws UsageError that names the option */
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
    throw new UsageError(`${sentence}: see mcp-gateway ${command} --help`, { cause })
  }
}

type Parsed<Options extends ParseArgsOptionsConfig> = ReturnType<
  typeof parseArgs<ParseArgsConfig & { options: Options; allowPositionals: true; strict: true }>
>

/** @throws UsageError for more than there are names for */
export function atMost(command: string, given: readonly string[], count: number): void {
  const extra = given[count]
  if (extra === undefined) return
  throw new UsageError(`Unexpected ${JSON.stringify(extra)}: see mcp-gateway ${command} --help`)
}
