import { readFileSync } from 'node:fs'

import { expect, test } from 'vitest'

import { readPackageVersion } from './package-version.ts'

test('reads the version of the package that a module belongs to', () => {
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  const { version = 'unknown' } = JSON.parse(manifest) as { version?: string }
  expect(readPackageVersion(import.meta.url)).toBe(version)
})

test.each([
  undefined,
  '',
  'app.cjs',
  'data:text/javascript,0',
  'https://cdn.example/app.mjs',
  'file:///app.mjs',
])('returns "unknown" for a module at %s', (url) => {
  expect(readPackageVersion(url)).toBe('unknown')
})
