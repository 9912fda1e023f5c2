import { expect, test } from 'vitest'

import { namedTypeOf } from './named-type.ts'

test.each([
  ['notes.md', 'text/markdown'],
  ['DATA.JSON', 'application/json'],
  ['archive.tar.gz', 'application/gzip'],
  ['main.ts', undefined],
  ['README', undefined],
  ['.env', undefined],
])('%s: %s', (name, type) => {
  expect(namedTypeOf(name)).toBe(type)
})
