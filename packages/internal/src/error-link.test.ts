import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { splitErrorLink, withErrorLink, withoutErrorLink } from './error-link.ts'

const manifest: unknown = JSON.parse(
  readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
)
const { homepage } = manifest as { homepage: string }
const link = (code: string): string => `See ${homepage}/e#${code}`

test.each([
  ['a message', 'The server is closed', `The server is closed. ${link('closed')}`],
  ['a sentence', 'The server is closed.', `The server is closed. ${link('closed')}`],
  ['several lines', 'a.yaml:\n  1: wrong', `a.yaml:\n  1: wrong\n${link('closed')}`],
])('ends %s with the address of the code on the homepage', (_, message, expected) => {
  expect(withErrorLink(message, 'CLOSED')).toBe(expected)
})

test('replaces the addresses of the errors that a message quotes', () => {
  const inner = withErrorLink('No connection', 'UNREACHABLE')
  const outer = withErrorLink(`tool "add": ${inner} (after 2 attempts)`, 'OUTCOME_UNKNOWN')
  expect(outer).toBe(`tool "add": No connection (after 2 attempts). ${link('outcome_unknown')}`)
  expect(withErrorLink(outer, 'OUTCOME_UNKNOWN')).toBe(outer)
})

test.each(['No connection', 'Line 1\nline 2'])('removes the address from %j', (text) => {
  expect(withoutErrorLink(withErrorLink(text, 'UNREACHABLE'))).toBe(text)
  expect(splitErrorLink(withErrorLink(text, 'UNREACHABLE')).join('')).toBe(
    withErrorLink(text, 'UNREACHABLE'),
  )
})

test('leaves other addresses', () => {
  const text = `See ${homepage}/reference/errors. See https://other.example/e#closed`
  expect(withoutErrorLink(text)).toBe(text)
})
