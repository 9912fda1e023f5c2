import { chmod, readFile, writeFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../test/temporary-folder.ts'
import { parseTokenList } from '../server/tokens.ts'
import { readTokens } from './serve.ts'

const ONE = 'token-of-agent-one'
const ALL = 'token-of-everybody'

test('reads a list with comments, empty lines and one token in a line', () => {
  const text = `\uFEFF# ours\r\n\r\n${ONE} one,two\r\n  ${ALL}\t*  \n`
  expect(parseTokenList(text, 'tokens')).toEqual([
    { token: ONE, agentIds: ['one', 'two'] },
    { token: ALL, agentIds: '*' },
  ])
})

test.each([
  ['', 'tokens has no token'],
  [ONE, 'tokens, line 1: the agents are missing after the token'],
  [`# ours\n${ONE} one two`, 'tokens, line 2: there is one space too many'],
  [`${ONE} one,,two`, 'tokens, line 1: agent 2: An agent id has 1 to 128'],
  [`one ${ONE}!`, 'tokens, line 1: a token has 16 to 4096 visible ASCII characters'],
  [`agent-with-a-long-name ${ONE}!`, 'tokens, line 1: agent 1: '],
  [`${ONE} one\n${ALL} *\n${ONE} two`, 'tokens, line 3: tokens, line 1 has the same token'],
])('refuses %j with an error that names the line, and not the token', (text, message) => {
  const error = errorOf(() => parseTokenList(text, 'tokens'))
  expect(error).toContain(message)
  expect(error).not.toContain(ONE)
})

test('refuses a file that every user can write, and warns about one that every user can read', async () => {
  await using folder = await temporaryFolder()
  const file = folder.file('tokens')
  await writeFile(file, `${ONE} one`)
  await chmod(file, 0o602)
  await expect(readTokens(file, {})).rejects.toThrow(`Every user can write ${file}`)
  await chmod(file, 0o640)
  expect((await readTokens(file, {}))?.warning).toBeUndefined()
  await chmod(file, 0o644)
  expect((await readTokens(file, {}))?.warning).toBe(`every user can read ${file}: chmod 600 it`)
})

test('reads tokens from the variable when there is no file', async () => {
  expect(await readTokens(undefined, { DEBUGSTATE_TOKENS: '' })).toBeUndefined()
  const source = await readTokens(undefined, { DEBUGSTATE_TOKENS: `${ONE} one; ${ALL} *` })
  expect(source?.grants).toHaveLength(2)
  await expect(readTokens(undefined, { DEBUGSTATE_TOKENS: ONE })).rejects.toThrow(
    'DEBUGSTATE_TOKENS, line 1',
  )
})

function errorOf(work: () => unknown): string {
  try {
    work()
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
  throw new Error('The list was accepted')
}

test('accepts the list in the README', async () => {
  const readme = await readFile(new URL('../../README.md', import.meta.url), 'utf8')
  const [, list = ''] = /```\n(# <token>[^`]*)```/.exec(readme) ?? []
  expect(parseTokenList(list, 'README.md')).toMatchObject([
    { agentIds: ['my-agent', 'other-agent'] },
    { agentIds: '*' },
  ])
})
