import { expect, test } from 'vitest'
import { Redaction } from './redaction.ts'

const redaction = new Redaction({
  secrets: { PIN: '1234', EMPTY: '', KEY: 'first line of key\nsecond line of key' },
  env: { API_KEY: 'abcdefgh', URL: 'abcdefgh-and-more', MODE: 'test', PATH: '/usr/local/bin' },
  args: [
    'server.js',
    '--token',
    'tok-in-next',
    '--api-key=tok-in-same',
    '--port',
    '87654321',
    '-v',
  ],
})

test.each([
  ['pin 1234', 'pin [removed]'],
  ['key abcdefgh', 'key [removed]'],
  ['url abcdefgh-and-more', 'url [removed]'],
  ['the second line of key', 'the [removed]'],
  ['tok-in-next tok-in-same', '[removed] [removed]'],
  [
    'test in /usr/local/bin, port 87654321, server.js',
    'test in /usr/local/bin, port 87654321, server.js',
  ],
])('%s is shown as %s', (text, shown) => {
  expect(redaction.applyTo(text)).toBe(shown)
})

test('a cut never shows a part of a secret', () => {
  for (let length = 0; length < 60; length++) {
    const text = `${'-'.repeat(20)}first line of key\nsecond line of key${'-'.repeat(60)}`
    const shown = redaction.applyToStart(text, length)
    expect(shown).not.toMatch(/fir|rst|sec|key/)
    expect(shown.length).toBeLessThanOrEqual(length + 1)
  }
  expect(redaction.applyToStart('short', 10)).toBe('short')
})
