import { readFile, stat } from 'node:fs/promises'
import type { DebugStateTokenGrant } from '../server/access.ts'
import { CommandError, lineFrom, UsageError } from './command-error.ts'
import { tokenListFrom } from './token-list.ts'

/** Where the tokens of a service come from. */
export interface TokenSource {
  readonly grants: readonly DebugStateTokenGrant[]
  /** Said in the log, about the file. */
  readonly warning?: string | undefined
  /** Reads the file again. `undefined` where there is none. @throws CommandError */
  readonly reload?: (() => Promise<readonly DebugStateTokenGrant[]>) | undefined
}

/**
 * The tokens of a file, else of the variable `DEBUGSTATE_TOKENS`; `undefined`: there are none.
 *
 * @throws CommandError for a list that is wrong, and a file that others may write
 */
export async function tokenSourceFrom(
  file: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): Promise<TokenSource | undefined> {
  const variable = env['DEBUGSTATE_TOKENS']
  if (file !== undefined) {
    if (variable) {
      throw new UsageError('--token-file and DEBUGSTATE_TOKENS are both set: keep one of them')
    }
    const { grants, mode } = await readTokenFile(file)
    const warning = mode & 0o004 ? `${file} can be read by everybody: chmod 600 it` : undefined
    return { grants, warning, reload: async () => (await readTokenFile(file)).grants }
  }
  if (!variable) return undefined
  return { grants: tokenListFrom(variable.replaceAll(';', '\n'), 'DEBUGSTATE_TOKENS') }
}

async function readTokenFile(
  file: string,
): Promise<{ readonly grants: readonly DebugStateTokenGrant[]; readonly mode: number }> {
  const { text, mode } = await contentOf(file)
  // Windows has no such bits, and says that everybody may write.
  if (mode & 0o002 && process.platform !== 'win32') {
    throw new CommandError(`${file} can be written by everybody: chmod 600 it`)
  }
  return { grants: tokenListFrom(text, file), mode: process.platform === 'win32' ? 0 : mode }
}

async function contentOf(file: string): Promise<{ readonly text: string; readonly mode: number }> {
  try {
    const { mode, size } = await stat(file)
    if (size > MAX_BYTES) throw new Error(`it has more than ${MAX_BYTES} bytes`)
    return { text: await readFile(file, 'utf8'), mode }
  } catch (cause) {
    throw new CommandError(`The token file ${file} cannot be read: ${lineFrom(cause)}`, { cause })
  }
}

const MAX_BYTES = 1_048_576
