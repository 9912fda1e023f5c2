import { expect, test } from 'vitest'
import { summariesFrom, summaryLines, verdictLine } from './report.ts'
import type { RunResult } from './report.ts'

const passed: RunResult = {
  subject: 'v1',
  revision: '2025-11-25',
  name: 'initialize',
  isRequired: true,
  isPassed: true,
  reasons: [],
}
const failed = { ...passed, name: 'sse-retry', isPassed: false, reasons: ['too late'] }
const other = { ...passed, revision: '2026-07-28', name: 'tools_call' } as const

test('counts passed scenarios and names failed ones, by revision', () => {
  const second = { ...other, subject: 'v2' } as const
  const third = { ...other, subject: 'v2-modern' } as const
  const fourth = { ...other, subject: 'mcp-client' } as const
  expect(summariesFrom([passed, failed, other, second, third, fourth])).toEqual({
    client: {
      '2025-11-25': { passed: 1, failed: ['sse-retry'] },
      '2026-07-28': { passed: 1, failed: [] },
    },
    clientV2: { '2026-07-28': { passed: 1, failed: [] } },
    clientV2Modern: { '2026-07-28': { passed: 1, failed: [] } },
    mcpClient: { '2026-07-28': { passed: 1, failed: [] } },
  })
})

test('shows why a scenario failed, and a summary of each client', () => {
  expect(verdictLine(failed)).toContain('too late')
  const text = summaryLines([passed, failed, { ...other, subject: 'v2' }])
  expect(text).toMatch(/SDK v1\n2025-11-25 {2}1 of 2 passed\n\n.*SDK v2\n2026-07-28 {2}1 of 1/)
})

test('counts scenarios that are not required separately', () => {
  const more = [passed, failed].map((result) => ({ ...result, isRequired: false }))
  expect(summaryLines(more)).toBe('\nNot required\n2025-11-25  1 of 2 passed')
})
