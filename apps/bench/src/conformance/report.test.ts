import { expect, test } from 'vitest'
import { summaryFrom, verdictLine } from './report.ts'
import type { ScenarioResult } from './run-scenario.ts'

const passed: ScenarioResult = {
  revision: '2025-11-25',
  name: 'initialize',
  isPassed: true,
  reasons: [],
}

test('the summary counts what passed and names what failed, by revision', () => {
  const failed = { ...passed, name: 'sse-retry', isPassed: false, reasons: ['too late'] }
  const other = { ...passed, revision: '2026-07-28', name: 'tools_call' } as const
  expect(summaryFrom([passed, failed, other])).toEqual({
    '2025-11-25': { passed: 1, failed: ['sse-retry'] },
    '2026-07-28': { passed: 1, failed: [] },
  })
  expect(verdictLine(failed)).toContain('too late')
})
