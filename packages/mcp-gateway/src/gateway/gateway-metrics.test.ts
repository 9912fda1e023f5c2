import { readFile } from 'node:fs/promises'

import { expect, test } from 'vitest'

import { gatewayMetrics } from './gateway-metrics.ts'
import { MetricSet } from './metric-set.ts'
import type { ObservedCall } from '../internal/observer.ts'

test('counters, gauges and histograms are written as Prometheus reads them', () => {
  const set = new MetricSet()
  const calls = set.counter('calls_total', 'Calls.')
  const seconds = set.histogram({ name: 'seconds', help: 'How long.' }, [0.1, 1])
  set.gauge('open', 'Open now.', () => 3)
  calls.add({ tool: 'a "quoted"\n\\ one' })
  calls.add({ tool: 'b' }, 2)
  for (const each of [0.1, 0.5, 7]) seconds.observe(each)
  expect(set.text()).toBe(
    `# HELP calls_total Calls.
# TYPE calls_total counter
calls_total{tool="a \\"quoted\\"\\n\\\\ one"} 1
calls_total{tool="b"} 2
# HELP seconds How long.
# TYPE seconds histogram
seconds_bucket{le="0.1"} 1
seconds_bucket{le="1"} 2
seconds_bucket{le="+Inf"} 3
seconds_sum 7.6
seconds_count 3
# HELP open Open now.
# TYPE open gauge
open 3
`,
  )
})

test('labels have a bound: what comes after a thousand of them is counted as other', () => {
  const set = new MetricSet()
  const calls = set.counter('calls_total', 'Calls.')
  for (let i = 0; i < 1500; i++) calls.add({ tool: `t${i}` })
  calls.add({ tool: 't3' })
  const lines = set.text().split('\n')
  expect(lines).toContain('calls_total{tool="other"} 500')
  expect(lines).toContain('calls_total{tool="t3"} 2')
  expect(lines.length).toBeLessThan(1010)
})

test('the page about operation names each metric, and no other', async () => {
  const { text } = gatewayMetrics({ agents: () => 0, degradedAgents: () => 0, tools: () => 0 })
  const readme = await readFile(
    new URL('../../../../docs/gateway-operation.md', import.meta.url),
    'utf8',
  )
  const named = [...readme.matchAll(/(?<=`)(?:mcp_gateway|process)_\w+(?=`)/g)].join('\n')
  const made = [...text().matchAll(/(?<=^# TYPE )\S+/gm)].join('\n')
  expect(named.split('\n').toSorted()).toEqual(made.split('\n').toSorted())
})

test('says what a gateway did, without principals and without names that clients made up', () => {
  const { observer, text } = gatewayMetrics({
    agents: () => 2,
    degradedAgents: () => 1,
    tools: () => 5,
  })
  const call: ObservedCall = {
    tool: 'support',
    isKnown: true,
    principal: 'somebody@example.com',
    isAnonymous: false,
    era: 'modern',
  }
  const made = { ...call, tool: 'made-up', isKnown: false }
  const end = { outcome: 'ok', durationMs: 40, requestBytes: 10, resultBytes: 20 }
  observer.callStarted?.(call)
  observer.callStarted?.(made)
  observer.callStarted?.(call)
  observer.callEnded?.(call, end)
  observer.callEnded?.(made, { ...end, outcome: 'unknown_tool' })
  const names = { runId: 'run_1', tool: 'support', agentId: 'a', skillId: 's', principal: 'p' }
  observer.runEvent?.({ type: 'started', ...names })
  observer.runEvent?.({ type: 'orphaned', ...names })
  observer.runEvent?.({ type: 'ended', outcome: 'timeout', durationMs: 10, ...names })
  observer.runEvent?.({ type: 'ended', outcome: 'busy', durationMs: 0, ...names, runId: 'run_2' })
  observer.sessionOpened?.()
  observer.sessionOpened?.()
  observer.sessionClosed?.({ reason: 'idle', openMs: 1 })
  observer.listChanged?.('tools')
  observer.warned?.('odd')
  const lines = text().split('\n')
  expect(lines).toEqual(
    expect.arrayContaining([
      'mcp_gateway_calls_total{tool="support",outcome="ok"} 1',
      'mcp_gateway_calls_total{tool="unknown",outcome="unknown_tool"} 1',
      'mcp_gateway_call_duration_seconds_bucket{tool="support",le="0.05"} 1',
      'mcp_gateway_call_argument_bytes_total 20',
      'mcp_gateway_call_result_bytes_total 40',
      'mcp_gateway_runs_total{tool="support",outcome="timeout"} 1',
      'mcp_gateway_orphaned_runs_total{tool="support"} 1',
      'mcp_gateway_active_calls 1',
      'mcp_gateway_active_runs 0',
      'mcp_gateway_sessions 1',
      'mcp_gateway_sessions_closed_total{reason="idle"} 1',
      'mcp_gateway_list_changes_total{list="tools"} 1',
      'mcp_gateway_warnings_total 1',
      'mcp_gateway_agents 2',
      'mcp_gateway_degraded_agents 1',
      'mcp_gateway_tools 5',
    ]),
  )
  expect(text()).not.toContain('somebody')
  expect(text()).not.toContain('made-up')
})
