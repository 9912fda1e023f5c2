import { describe, expect, test } from 'vitest'
import type { PostOutcome } from '../modern/modern-post.ts'
import { TransportError } from '../transport-error.ts'
import type { ServerError, TransportErrorCode } from '../transport-error.ts'
import { probeVerdict, getProbeDelayMs } from './probe.ts'
import type { ProbeVerdict } from './probe.ts'

const judged = (outcome: PostOutcome): ProbeVerdict =>
  probeVerdict(outcome, 'https://shop.example/mcp')

describe('probe verdict', () => {
  function discovered(...supportedVersions: string[]): PostOutcome {
    const answer = {
      jsonrpc: '2.0',
      id: 1,
      result: { supportedVersions, capabilities: {} },
    } as const
    return { kind: 'answered', answer, status: 200, headers: {}, errorId: 'own' }
  }

  function refused(status: number, serverError?: Omit<ServerError, 'message'>): PostOutcome {
    if (serverError === undefined) {
      const error = new TransportError('REJECTED', 'No', { status })
      return { kind: 'refused', error, headers: {}, errorId: 'none' }
    }
    const answer = { jsonrpc: '2.0', id: 1, error: { ...serverError, message: 'No' } } as const
    return { kind: 'answered', answer, status, headers: {}, errorId: 'own' }
  }

  function failed(code: TransportErrorCode, status?: number): PostOutcome {
    return { kind: 'failed', error: new TransportError(code, 'No', { status }), headers: {} }
  }

  const error = new TransportError('OUTCOME_UNKNOWN', 'No', { status: 200 })
  const unanswered = { kind: 'refused', error, headers: {}, errorId: 'own' } as const

  const unsupported = (status: number, ...supported: unknown[]): PostOutcome =>
    refused(status, { code: -32022, data: { supported } })

  const table: readonly (readonly [string, PostOutcome, ProbeVerdict['kind']])[] = [
    ['a DiscoverResult with our version', discovered('2026-07-28'), 'modern'],
    ['… among others', discovered('2025-11-25', '2026-07-28', '2099-01-01'), 'modern'],
    ['a DiscoverResult with legacy versions only', discovered('2025-11-25'), 'legacy'],
    ['a DiscoverResult with unknown versions only', discovered('2099-01-01'), 'legacy'],
    ['-32022 with our version', unsupported(400, '2026-07-28'), 'again'],
    ['-32022 with legacy versions only', unsupported(400, '2025-11-25', '2025-06-18'), 'legacy'],
    ['-32022 with unknown versions only', unsupported(400, '2099-01-01'), 'incompatible'],
    [
      '-32022 with unknown and legacy versions',
      unsupported(400, '2099-01-01', '2025-11-25'),
      'legacy',
    ],
    ['-32022 with an empty list', unsupported(400), 'legacy'],
    ['-32022 with a list of no versions', unsupported(400, 7, null), 'legacy'],
    ['-32022 without a list', refused(400, { code: -32022 }), 'legacy'],
    ['-32020', refused(400, { code: -32020 }), 'legacy'],
    ['-32021', refused(400, { code: -32021 }), 'legacy'],
    ['-32001', refused(404, { code: -32001 }), 'legacy'],
    ['-32601', refused(404, { code: -32601 }), 'legacy'],
    ['-32602', refused(400, { code: -32602 }), 'legacy'],
    ['-32000', refused(400, { code: -32000 }), 'legacy'],
    ['any other code', refused(400, { code: 32600 }), 'legacy'],
    ['an error in a 200', refused(200, { code: -32601 }), 'legacy'],
    ['401', refused(401), 'error'],
    ['401 with a code that says something', refused(401, { code: -32601 }), 'error'],
    ['403', refused(403), 'error'],
    ['403 with a list of versions', unsupported(403, '2025-11-25'), 'error'],
    ['500', refused(500), 'later'],
    ['500 with a code', refused(500, { code: -32603 }), 'later'],
    ['503', refused(503), 'later'],
    ['408', refused(408), 'later'],
    ['425', refused(425), 'later'],
    ['429', refused(429), 'later'],
    ['429 with a code', refused(429, { code: -32000 }), 'later'],
    ['any other 4xx', refused(418), 'legacy'],
    ['a redirect elsewhere', refused(302), 'legacy'],
    ['2xx without a usable body', refused(200), 'legacy'],
    ['a stream without an answer', unanswered, 'legacy'],
    ['no connection', failed('UNREACHABLE'), 'error'],
    ['a time-out', failed('TIMEOUT'), 'error'],
    ['a close', failed('CLOSED'), 'error'],
    ['a lost connection', failed('OUTCOME_UNKNOWN'), 'error'],
    ['a connection that broke in the body', failed('OUTCOME_UNKNOWN', 200), 'error'],
    ['a body that is too large', failed('LIMIT', 200), 'legacy'],
  ]

  test.each(table)('%s', (_name, outcome, kind) => {
    expect(judged(outcome).kind).toBe(kind)
  })

  describe('a verdict contains', () => {
    test('the version and the result of a modern server', () => {
      expect(judged(discovered('2026-07-28'))).toMatchObject({
        version: '2026-07-28',
        discovered: { supportedVersions: ['2026-07-28'] },
      })
    })

    test.each([
      ['-32020', refused(400, { code: -32020 }), true],
      ['-32021', refused(400, { code: -32021 }), true],
      ['-32022 with versions', unsupported(400, '2025-11-25'), true],
      ['-32022 without a list', refused(400, { code: -32022 }), false],
      ['-32601', refused(404, { code: -32601 }), false],
    ])('the evidence against the era, if there is any: %s', (_name, outcome, hasEvidence) => {
      const verdict = judged(outcome)
      expect('evidence' in verdict && verdict.evidence !== undefined).toBe(hasEvidence)
    })

    test('the versions that the server offers', () => {
      expect(judged(discovered('2099-01-01'))).toMatchObject({ offered: ['2099-01-01'] })
      expect(judged(unsupported(400, '2099-01-01'))).toMatchObject({
        offered: ['2099-01-01'],
      })
    })

    test('the error that the server gave before the second probe', () => {
      const outcome = unsupported(400, '2026-07-28')
      expect(judged(outcome)).toMatchObject({ version: '2026-07-28', error: { status: 400 } })
    })
  })
})

describe('probe delay', () => {
  test.each<[string, [number, number | undefined], number]>([
    ['nothing asked for, the first time', [0, undefined], 500],
    ['nothing asked for, the second time', [1, undefined], 1000],
    ['what the server asked for', [0, 3000], 3000],
    ['… also if that is at once', [1, 0], 0],
    ['… but not for an hour', [0, 3_600_000], 10_000],
  ])('%s', (_name, [retries, askedMs], ms) => {
    expect(getProbeDelayMs(retries, askedMs)).toBe(ms)
  })
})
