import { seededRandom } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { isScopeId, newScopeId } from './scopes.ts'
import {
  artifactAddressFrom,
  artifactNameFrom,
  artifactUriOf,
  encodedName,
  fileNameFrom,
  isArtifactName,
} from './uri.ts'

const scope = 'abcdefghijklmnopqrstuvwxyz'
const random = seededRandom(7)

/** Returns a difficult text: delimiters of URIs, halves of surrogate pairs, characters to normalize, control characters. */
function anyText(): string {
  const parts = ['a', '/', '?', '#', '%', '%2F', '..', '.', ' ', '\u0000', '\u0301', 'é', 'e\u0301']
  const more = [
    '\ud800',
    '\udc00',
    '😀',
    '\u202e',
    "'",
    '(',
    '*',
    '\\',
    '"',
    '&version=2',
    '漢',
    '\n',
  ]
  const all = [...parts, ...more]
  const length = Math.floor(random() * 8)
  return Array.from({ length }, () => all[Math.floor(random() * all.length)]).join('')
}

test('parses every name from its URI, where it is one segment', () => {
  for (let n = 0; n < 5000; n++) {
    const name = artifactNameFrom(anyText())
    expect(isArtifactName(name)).toBe(true)
    const version = n % 3 === 0 ? n + 1 : undefined
    const uri = artifactUriOf({ scope, name, version })
    expect(uri).toMatch(/^artifact:\/\/[a-z2-7]{26}\/[\w.~%-]+(\?version=\d+)?$/)
    const address = version === undefined ? { scope, name } : { scope, name, version }
    expect(artifactAddressFrom(uri)).toEqual(address)
    expect(artifactAddressFrom(new URL(uri).href)).toEqual(address)
  }
})

test('refuses other texts, and formats a parsed URI as it was', () => {
  for (let n = 0; n < 20_000; n++) {
    const uri = `artifact://${n % 2 ? scope : anyText()}/${anyText()}${n % 3 ? '' : `?version=${anyText()}`}`
    const address = artifactAddressFrom(uri)
    if (!address) continue
    expect(isArtifactName(address.name) && isScopeId(address.scope)).toBe(true)
    expect(artifactAddressFrom(artifactUriOf(address))).toEqual(address)
  }
})

test.each([
  '',
  'artifact:',
  `artifact://${scope}`,
  `artifact://${scope}/`,
  `artifact://${scope}/.`,
  `artifact://${scope}/%2e%2E`,
  `artifact://${scope}/a/b`,
  `artifact://${scope}/a%00b`,
  `artifact://${scope}/a%ff`,
  `artifact://${scope}/a?version=0`,
  `artifact://${scope}/a?version=01`,
  `artifact://${scope}/a?version=1&version=2`,
  `artifact://${scope}/a#b`,
  `artifact://${scope.toUpperCase()}/a`,
  `artifact://${scope}a/a`,
  `artifact://user@${scope}/a`,
  `other://${scope}/a`,
  `artifact://${scope}/${'a'.repeat(256)}`,
  `artifact://${scope}/${'%61'.repeat(400)}`,
])('%s is no URI of an artifact', (uri) => {
  expect(artifactAddressFrom(uri)).toBeUndefined()
})

test('parses other ways to escape the same name', () => {
  for (const written of ['caf%C3%A9', 'caf%c3%a9', 'cafe%CC%81', 'café', '%63af%C3%A9']) {
    expect(artifactAddressFrom(`artifact://${scope}/${written}`)?.name).toBe('café')
  }
})

test('changes invalid names only', () => {
  expect(artifactNameFrom('reports/Q1 (final).pdf')).toBe('reports/Q1 (final).pdf')
  expect(encodedName('reports/Q1 (final)*.pdf')).toBe('reports%2FQ1%20%28final%29%2A.pdf')
  expect(artifactNameFrom(' a\nb ')).toBe('a b')
  expect(artifactNameFrom('photo\u202Egnp\u200B.exe\u2028')).toBe('photognp.exe')
  expect(artifactNameFrom('..')).toBe('__')
  expect(artifactNameFrom('.')).toBe('_')
  expect(artifactNameFrom('\ud800')).toBe('\ufffd')
  expect(artifactNameFrom('a\r\nSet-Cookie: b')).toBe('a  Set-Cookie: b')
  expect(artifactNameFrom('\u0000')).toBe('file')
  expect(artifactNameFrom('\u001B[31mred\u001B[0m')).toBe('red')
  expect(Buffer.byteLength(artifactNameFrom('😀'.repeat(100)))).toBe(252)
})

test('makes random scopes of 26 characters', () => {
  const scopes = Array.from({ length: 1000 }, newScopeId)
  expect(scopes.every(isScopeId)).toBe(true)
  expect(new Set(scopes).size).toBe(1000)
  expect(new Set(scopes.join('')).size).toBe(32)
})

test.each([
  ['../../etc/passwd', '.._.._etc_passwd'],
  ['/etc/passwd', '_etc_passwd'],
  ['..\\..\\boot.ini', '.._.._boot.ini'],
  ['report.pdf', 'report.pdf'],
])('makes a file name of %j that stays in its folder', (name, expected) => {
  expect(fileNameFrom(name)).toBe(expected)
})
