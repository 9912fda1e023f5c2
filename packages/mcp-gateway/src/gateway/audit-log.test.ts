import { expect, test } from 'vitest'

import { callEntry } from './audit-log.ts'

const SECRET = 'S3CRETs3cret0123456789'

test('writes who called, which tool and the outcome, but no text of the call', () => {
  const trace = { traceparent: SECRET }
  const call = {
    principal: 'https://login.example|ann',
    isAnonymous: false,
    isKnown: true,
    era: 'modern' as const,
    trace,
    tool: `shop_order\n{"event":"audit","tool":"fake"}${'x'.repeat(300)}`,
  }
  const entry = callEntry(call, {
    runId: 'run_0123456789abcdef',
    outcome: 'ok',
    durationMs: 12.6,
    requestBytes: 40,
    resultBytes: 900,
  })
  expect(entry).toMatchObject({
    event: 'audit',
    action: 'call',
    principal: 'https://login.example|ann',
    run: 'run_0123456789abcdef',
    outcome: 'ok',
    ms: 13,
    bytesIn: 40,
    bytesOut: 900,
  })
  expect(entry.tool).toHaveLength(128)
  expect(entry.tool).not.toContain('\n')
  expect(JSON.stringify(entry)).not.toContain(SECRET)
})
