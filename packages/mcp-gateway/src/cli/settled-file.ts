import { readFile } from 'node:fs/promises'

import { CommandError } from '@x/internal/command-line'
import { systemClock, type Clock } from '../internal/clock.ts'

/** Configuration that a command reads if no file is named. */
export const DEFAULT_FILE = 'gateway.yaml'

export interface SettledFileOptions {
  /** How long it has to stay the same. @default 100 */
  readonly quietMs?: number | undefined
  /** @default systemClock */
  readonly clock?: Clock | undefined
}

/** Whoever writes longer than this many quiet times is not waited for. */
const MAX_LOOKS = 20

/** For somebody who named none. */
const ADVICE = ': name another, or see mcp-gateway --help'

/** The text of a file. @throws CommandError that names it */
export async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (cause) {
    const isMissing = cause instanceof Error && 'code' in cause && cause.code === 'ENOENT'
    const advice = file === DEFAULT_FILE ? ADVICE : ''
    const why = isMissing ? `there is no such file${advice}` : 'it cannot be read'
    throw new CommandError(`${file}: ${why}`, { cause })
  }
}

/**
 * The text of a file that somebody may be writing: editors empty it first, and the beginning of a configuration is
 * a configuration. It has to be the same twice, and not empty.
 *
 * @throws CommandError that names it
 */
export async function readSettled(file: string, options: SettledFileOptions = {}): Promise<string> {
  const { quietMs = 100, clock = systemClock } = options
  let before = await readText(file)
  for (let looks = 0; looks < MAX_LOOKS; looks++) {
    await new Promise<void>((resolve) => {
      clock.after(quietMs, resolve)
    })
    const now = await readText(file)
    if (now === before && now.trim() === '') throw new CommandError(`${file}: it is empty`)
    if (now === before) return now
    before = now
  }
  throw new CommandError(`${file}: it is being written all the time`)
}
