import { describe, expect, test } from 'vitest'
import type { JsonRpcResponse } from '../json-rpc.ts'
import { modernEvidence } from '../session-record.ts'
import { errorAnswer, TransportError } from '../transport-error.ts'

const url = 'https://shop.example/mcp'

function refused(status: number, code?: number, data?: unknown): JsonRpcResponse {
  const serverError = code === undefined ? undefined : { code, message: 'No', data }
  return errorAnswer(0, new TransportError('REJECTED', 'No', { status, url, serverError }))
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
    ['a result', { jsonrpc: '2.0', id: 0, result: {} } as const, undefined],
    [
      '-32022 in a 200',
      {
        jsonrpc: '2.0',
        id: 0,
        error: { code: -32022, message: '', data: { supported: ['2099-01-01'] } },
      } as const,
      ['2099-01-01'],
    ],
  ])('%s', (_name, answer, versions) => {
    expect(modernEvidence(answer)).toEqual(versions)
  })
})
