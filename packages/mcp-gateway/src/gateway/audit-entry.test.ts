import { expect, test } from 'vitest'

import { auditEntry } from './audit-entry.ts'

const SECRET = 'S3CRETs3cret0123456789'

test('the audit line says who, what and how it ended, and nothing of what was said', () => {
  const entry = auditEntry({
    principal: {
      id: 'https://login.example|ann',
      scopes: ['a'],
      isAnonymous: false,
      claims: { email: SECRET },
    },
    tool: `shop_order\n{"event":"audit","tool":"fake"}${'x'.repeat(300)}`,
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
