import { expect, test } from 'vitest'

import {
  artifactNameFrom,
  artifactTitleFrom,
  fileNameFrom,
  isArtifactName,
} from './artifact-name.ts'

test.each([
  ['report.pdf', 'report.pdf'],
  ['out/Größe 👩‍💻.csv', 'out/Größe 👩‍💻.csv'],
  ['a\r\nSet-Cookie: b', 'a Set-Cookie: b'],
  ['\u202Egpj.exe', 'gpj.exe'],
  ['a\u{E0041}\u0000b', 'ab'],
  ['\u2028', 'file'],
  ['', 'file'],
  ['x'.repeat(1_000_000), 'x'.repeat(255)],
])('%j is shown as one line that can be read', (text, expected) => {
  expect(artifactTitleFrom(text)).toBe(expected)
})

test.each([
  ['../../etc/passwd', '.._.._etc_passwd'],
  ['/etc/passwd', '_etc_passwd'],
  ['..\\..\\boot.ini', '.._.._boot.ini'],
  ['..', '__'],
  ['.', '_'],
  ['report.pdf', 'report.pdf'],
])('%j leads out of no folder', (title, expected) => {
  expect(fileNameFrom(title)).toBe(expected)
})

test.each(['../a', 'a\0b', '..', '', '\ud800', 'x'.repeat(5000), '__proto__'])(
  'whatever a file is called, %j, it has a name',
  (text) => {
    expect(isArtifactName(artifactNameFrom(text))).toBe(true)
  },
)
