import { withErrorLink } from '@x/internal'
import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import { TransportError } from './transport-error.ts'

test('has no fields for missing options', () => {
  const error = new TransportError('REJECTED', 'no', { status: 400, url: undefined })
  expect(Object.keys(error).toSorted()).toEqual(['code', 'name', 'status'])
  expect(inspect(error)).not.toContain('undefined')
  expect(error.certain).toBeUndefined()
  expect('cause' in new TransportError('CLOSED', 'x', { cause: undefined })).toBe(false)
})

test('keeps its cause', () => {
  const cause = new Error('ECONNRESET')
  expect(new TransportError('OUTCOME_UNKNOWN', 'broke', { cause }).cause).toBe(cause)
})

test('names the section of its code once, also in a changed copy', () => {
  const error = new TransportError('UNREACHABLE', 'No connection')
  expect(error.message).toBe(withErrorLink('No connection', 'UNREACHABLE'))
  const message = `${error.message} (in a later round of the call)`
  expect(error.with({ code: 'OUTCOME_UNKNOWN', message }).message).toBe(
    withErrorLink('No connection (in a later round of the call)', 'OUTCOME_UNKNOWN'),
  )
})

test('is() accepts only errors of this package, also of another copy', () => {
  const foreign = Object.defineProperty(
    new Error('x'),
    Symbol.for('mcp-transport.TransportError'),
    { value: true },
  )
  expect(TransportError.is(new TransportError('CLOSED', 'x'))).toBe(true)
  expect(TransportError.is(foreign)).toBe(true)
  expect(TransportError.is(new Error('x'))).toBe(false)
  expect(TransportError.is(undefined)).toBe(false)
  expect(TransportError.is('CLOSED')).toBe(false)
})

test('has an outcome that follows from the code, unless it is given', () => {
  const not = 'not-executed'
  expect(new TransportError('UNREACHABLE', 'x').outcome).toBe(not)
  expect(new TransportError('REJECTED', 'x').outcome).toBe('unknown')
  expect(new TransportError('SESSION_LOST', 'x').outcome).toBe('unknown')
  expect(new TransportError('SESSION_LOST', 'x', { certain: true }).outcome).toBe(not)
  expect(new TransportError('UNREACHABLE', 'x', { outcome: 'unknown' }).outcome).toBe('unknown')
  expect(new TransportError('REJECTED', 'x', { outcome: not }).outcome).toBe(not)
})
