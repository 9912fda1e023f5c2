import { expect, test } from 'vitest'
import { commonVersion, hasLegacyVersion } from './versions.ts'

test('the common version is one that we speak, wherever it stands', () => {
  expect(commonVersion(['2099-01-01', '2025-11-25', '2026-07-28'])).toBe('2026-07-28')
  expect(commonVersion(['2025-11-25', '2099-01-01'])).toBeUndefined()
  expect(commonVersion([])).toBeUndefined()
})

test('revisions with sessions are dates before 2026', () => {
  expect(hasLegacyVersion(['2026-07-28', '2024-11-05'])).toBe(true)
  expect(hasLegacyVersion(['2026-07-28', '2099-01-01'])).toBe(false)
  expect(hasLegacyVersion([])).toBe(false)
})
