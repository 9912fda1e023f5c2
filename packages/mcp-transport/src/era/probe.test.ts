// The forms of `probe-forms.ts` are tested in `era-detection.test.ts`. These are not among them.
import { expect, test } from 'vitest'
import type { PostOutcome } from '../modern/modern-post.ts'
import { TransportError } from '../transport-error.ts'
import { getProbeDelayMs, probeVerdict } from './probe.ts'
import type { ProbeVerdict } from './probe.ts'

const unsupported = (...supported: unknown[]): PostOutcome => {
  const error = { code: -32022, message: 'No', data: { supported } }
  const answer = { jsonrpc: '2.0', id: 1, error } as const
  return { kind: 'answered', answer, status: 400, headers: {}, errorId: 'own' }
}

const failed = (code: 'OUTCOME_UNKNOWN' | 'LIMIT'): PostOutcome => {
  const error = new TransportError(code, 'No', { status: 200 })
  return { kind: 'failed', error, headers: {} }
}

test.each<readonly [string, PostOutcome, ProbeVerdict['kind']]>([
  ['-32022 with unknown and legacy versions', unsupported('2099-01-01', '2025-11-25'), 'legacy'],
  ['-32022 with an empty list', unsupported(), 'legacy'],
  ['-32022 with a list of no versions', unsupported(7, null), 'legacy'],
  ['a connection that broke in the body', failed('OUTCOME_UNKNOWN'), 'error'],
  ['a body that is too large', failed('LIMIT'), 'legacy'],
])('the verdict about %s', (_name, outcome, kind) => {
  expect(probeVerdict(outcome, 'https://shop.example/mcp').kind).toBe(kind)
})

test.each<[string, [number, number | undefined], number | undefined]>([
  ['nothing asked for, the first time', [0, undefined], 500],
  ['nothing asked for, the second time', [1, undefined], 1000],
  ['what the server asked for', [0, 3000], 3000],
  ['… also if that is at once', [1, 0], 0],
  ['… and up to 10 s', [0, 10_000], 10_000],
  ['none for a longer time', [0, 10_001], undefined],
])('the delay of a probe: %s', (_name, [retries, askedMs], ms) => {
  expect(getProbeDelayMs(retries, askedMs)).toBe(ms)
})
