import { chmod, readFile, writeFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../test/temporary-folder.ts'
import { tokenListFrom } from './token-list.ts'
import { tokenSourceFrom } from './token-source.ts'

const ONE = 'token-of-agent-one'
const ALL = 'token-of-everybody'

test('a list has comments, empty lines, and one token a line', () => {
  const text = `\uFEFF# ours\r\n\r\n${ONE} one,two\r\n  ${ALL}\t*  \n`
  expect(tokenListFrom(text, 'tokens')).toEqual([
    { token: ONE, agentIds: ['one', 'two'] },
    { token: ALL, agentIds: '*' },
  ])
})

test.each([
  ['', 'tokens holds no token'],
  [ONE, 'tokens, line 1: after the token, name its agents, or * for all'],
  [`# ours\n${ONE} one two`, 'tokens, line 2: there is a space too many'],
  [`${ONE} one,,two`, 'tokens, line 1: agent 2 of it: An agent id has 1 to 128'],
  [`one ${ONE}!`, 'tokens, line 1: a token has 16 to 4096 visible ASCII characters'],
  [`agent-with-a-long-name ${ONE}!`, 'tokens, line 1: agent 1 of it'],
  [`${ONE} one\n${ALL} *\n${ONE} two`, 'tokens, line 3: this is the token of line 1'],
])('%j is refused, and the line is named, not the token', (text, message) => {
  const error = errorOf(() => tokenListFrom(text, 'tokens'))
  expect(error).toContain(message)
  expect(error).not.toContain(ONE)
})

test('others may not write the file', async () => {
  await using folder = await temporaryFolder()
  const file = folder.file('tokens')
  await writeFile(file, `${ONE} one`)
  await chmod(file, 0o602)
  await expect(tokenSourceFrom(file, {})).rejects.toThrow(`${file} can be written by everybody`)
  await chmod(file, 0o640)
  expect((await tokenSourceFrom(file, {}))?.warning).toBeUndefined()
  await chmod(file, 0o644)
  expect((await tokenSourceFrom(file, {}))?.warning).toBe(
    `${file} can be read by everybody: chmod 600 it`,
  )
})

test('without a file and a variable there are none', async () => {
  expect(await tokenSourceFrom(undefined, { DEBUGSTATE_TOKENS: '' })).toBeUndefined()
  const source = await tokenSourceFrom(undefined, { DEBUGSTATE_TOKENS: `${ONE} one; ${ALL} *` })
  expect(source?.grants).toHaveLength(2)
  await expect(tokenSourceFrom(undefined, { DEBUGSTATE_TOKENS: ONE })).rejects.toThrow(
    'DEBUGSTATE_TOKENS, line 1',
  )
})

function errorOf(work: () => unknown): string {
  try {
    work()
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
  throw new Error('It was taken')
}

test('the list in the README is one', async () => {
  const readme = await readFile(new URL('../../README.md', import.meta.url), 'utf8')
  const [, list = ''] = /```\n(# <token>[^`]*)```/.exec(readme) ?? []
  expect(tokenListFrom(list, 'README.md')).toMatchObject([
    { agentIds: ['my-agent', 'other-agent'] },
    { agentIds: '*' },
  ])
})
