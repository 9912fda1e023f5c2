import { expect, test } from 'vitest'
import { headerValueFrom } from './header-value.ts'

test.each(['a', 'west-1', 'two words', '{"a":1}', '~', '=?base64?', '=?utf8?Zg==?='])(
  '%j stays as it is',
  (text) => {
    expect(headerValueFrom(text)).toBe(text)
  },
)

test.each([
  ['nothing', ''],
  ['a leading space', ' a'],
  ['a trailing space', 'a '],
  ['a space', ' '],
  ['a tab', 'a\tb'],
  ['a line break', 'a\r\nHost: b'],
  ['a line break at the end', 'a\n'],
  ['a control character', 'a\u0000'],
  ['a delete', 'a\u007F'],
  ['more than ASCII', 'Zürich'],
  ['an emoji', '🦀'],
  ['what looks encoded', '=?base64?YQ==?='],
  ['what looks encoded, in capitals', '=?BASE64?YQ==?='],
])('%s is encoded', (_name, text) => {
  const [, encoded] = /^=\?base64\?(.*)\?=$/.exec(headerValueFrom(text)) ?? []
  expect(Buffer.from(encoded ?? 'not encoded', 'base64').toString('utf8')).toBe(text)
})
