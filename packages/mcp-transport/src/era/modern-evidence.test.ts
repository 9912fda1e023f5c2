import { describe, expect, test } from 'vitest'
import { modernEvidence } from '../session-record.ts'
import { TransportError } from '../transport-error.ts'

const url = 'https://shop.example/mcp'

function refused(status: number, code?: number, data?: unknown): TransportError {
  const serverError = code === undefined ? undefined : { code, message: 'No', data }
  return new TransportError('REJECTED', 'No', { status, url, serverError })
}

describe('modernEvidence', () => {
  test.each([
    ['-32020', refused(400, -32020), ['2026-07-28 or newer']],
    ['-32021', refused(400, -32021), ['2026-07-28 or newer']],
    ['-32022 with a list', refused(400, -32022, { supported: ['2026-07-28', 7] }), ['2026-07-28']],
    ['404 with -32601', refused(404, -32601), ['2026-07-28 or newer']],
    ['400 with -32601', refused(400, -32601), undefined],
    ['a bare 404', refused(404), undefined],
    ['400 with -32000', refused(400, -32000), undefined],
    [
      '-32022 in a 200',
      { code: -32022, message: '', data: { supported: ['2099-01-01'] } },
      ['2099-01-01'],
    ],
  ])('%s', (_name, error, versions) => {
    expect(modernEvidence(error)).toEqual(versions)
  })
})
