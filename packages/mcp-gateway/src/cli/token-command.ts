import { createHash, randomBytes } from 'node:crypto'

import { CommandError } from './command-error.ts'
import type { Command } from './command.ts'
import { atMost, parseOptions } from './parse-options.ts'

export const tokenCommand: Command = {
  help: `Usage: mcp-gateway token [options]

Makes a token that nobody can guess, and its hash for auth.tokens: give the one to the caller, and
put the other in the file. The token is printed once and kept nowhere.

  auth:
    mode: bearer
    tokens:
      ci: { sha256: <hash>, scopes: ["agent:support:call"] }

Options
  --stdin              hash the token that comes on standard input, so that no shell remembers it
  --json               {"token", "sha256"}; with --stdin {"sha256"}
  --help               this text
`,
  async run({ args, stdin, stdout }) {
    const { values, positionals } = parseOptions('token', args, {
      stdin: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
    })
    atMost('token', positionals, 0)
    const token = values.stdin ? await readToken(stdin) : randomBytes(32).toString('base64url')
    const sha256 = createHash('sha256').update(token, 'utf8').digest('hex')
    const shown = values.stdin ? { sha256 } : { token, sha256 }
    const text = values.json
      ? JSON.stringify(shown)
      : Object.entries(shown)
          .map(([name, value]) => `${name.padEnd(8)}${value}`)
          .join('\n')
    stdout.write(`${text}\n`)
  },
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
