import { expect, test } from 'vitest'
import { callbackIssuerVerdict } from './callback-issuer.ts'

const recorded = 'https://as.test'

test.each([
  [true, recorded, 'accept'],
  [true, undefined, 'missing'],
  [true, '', 'other'],
  [true, 'https://evil.test', 'other'],
  [true, 'https://as.test/', 'other'],
  [true, 'https://AS.test', 'other'],
  [true, 'https://as.test:443', 'other'],
  [false, recorded, 'accept'],
  [false, undefined, 'accept'],
  [false, 'https://evil.test', 'other'],
] as const)('advertised %s, iss %s: %s', (isAdvertised, iss, verdict) => {
  expect(callbackIssuerVerdict({ iss, recorded, isAdvertised })).toBe(verdict)
})
