import { createHash, randomBytes } from 'node:crypto'
import type { Readable } from 'node:stream'
import { CommandError } from '@x/internal/command-line'

/** Returns a new token and its hash, or only the hash of the token that `stdin` gives. */
export async function makeToken(
  stdin: Readable | undefined,
): Promise<{ readonly token?: string; readonly sha256: string }> {
  const token = stdin ? await readToken(stdin) : randomBytes(32).toString('base64url')
  const sha256 = createHash('sha256').update(token, 'utf8').digest('hex')
  return stdin ? { sha256 } : { token, sha256 }
}

const MAX_CHARS = 8192

async function readToken(stdin: AsyncIterable<unknown>): Promise<string> {
  let text = ''
  for await (const chunk of stdin) {
    text += String(chunk)
    if (text.length > MAX_CHARS) throw new CommandError('That is too long for a token')
  }
  const token = text.replace(/\r?\n$/, '')
  if (token.trim() === '') throw new CommandError('There was no token on standard input')
  return token
}
