import { withErrorLink } from '@x/internal'
import { expect, test } from 'vitest'
import { GatewayError, textForCaller } from './errors.ts'
import { errorText } from './internal/redacted.ts'

test('names the section of its code to people, and not to a caller', () => {
  const error = new GatewayError('QUOTA', 'There is no room')
  expect(error.message).toBe(withErrorLink('There is no room', 'QUOTA'))
  expect(textForCaller(error)).toBe('There is no room')
})

test('names one section in a log, whole, also after a text that is cut', () => {
  const cause = new GatewayError('UNAVAILABLE', 'x'.repeat(5000))
  const text = errorText(new GatewayError('CONFIG', 'The store cannot be used', { cause }))
  expect(text).toBe(withErrorLink(text, 'CONFIG'))
  expect(text).toMatch(/^GatewayError: The store cannot be used ← GatewayError: x+\. See/)
})
