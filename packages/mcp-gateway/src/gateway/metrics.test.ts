import { readFile } from 'node:fs/promises'

import { expect, test } from 'vitest'

import { agentOf, FakeSource, worldOf } from '../../test/registry-world.ts'
import { registryOptions } from '../../test/settings.ts'
import { AgentRegistry } from '../tools/agent-registry.ts'
import { boundedLabels, gatewayMetrics } from './metrics.ts'
import type { ObservedCall } from '../internal/observer.ts'

test('counts labels beyond a thousand sets as other', () => {
  const bounded = boundedLabels()
  for (let i = 0; i < 1000; i++) expect(bounded({ tool: `t${i}` })).toEqual({ tool: `t${i}` })
  expect(bounded({ tool: 'one more' })).toEqual({ tool: 'other' })
  expect(bounded({ tool: 't3' })).toEqual({ tool: 't3' })
})

test('escapes labels for Prometheus', async () => {
  const { observer, text } = gatewayMetrics(() => new AgentRegistry(registryOptions({})))
  const run = { runId: 'r', agentId: 'a', skillId: 's', principal: 'p' }
  observer.runEvent?.({ type: 'orphaned', ...run, tool: 'a "quoted"\n\\ one' })
  expect(await text()).toContain(
    'mcp_gateway_orphaned_runs_total{tool="a \\"quoted\\"\\n\\\\ one"} 1\n',
  )
})

test('documents each metric, and no other, on the page about operation', async () => {
  const { text } = gatewayMetrics(() => new AgentRegistry(registryOptions({})))
  const readme = await readFile(
    new URL('../../../../docs/gateway-operation.md', import.meta.url),
    'utf8',
  )
  const named = [...readme.matchAll(/(?<=`)(?:mcp_gateway|process)_\w+(?=`)/g)].join('\n')
  const made = [...(await text()).matchAll(/(?<=^# TYPE )\S+/gm)].join('\n')
  expect(named.split('\n').toSorted()).toEqual(made.split('\n').toSorted())
})

test('counts the work of a gateway without principals and without names that clients invent', async () => {
  const skills = ['w', 'x', 'y', 'z'].map((id) => ({ id, name: id, description: '' }))
  await using world = worldOf([
    new FakeSource([agentOf('a', { skills }), agentOf('b', { health: 'degraded' })]),
  ])
  await world.registry.start()
  const { observer, text } = gatewayMetrics(() => world.registry)
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
  const lines = (await text()).split('\n')
  expect(lines).toEqual(
    expect.arrayContaining([
      'mcp_gateway_calls_total{tool="support",outcome="ok"} 1',
      'mcp_gateway_calls_total{tool="unknown",outcome="unknown_tool"} 1',
      'mcp_gateway_call_duration_seconds_bucket{le="0.05",tool="support"} 1',
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
  expect(await text()).not.toContain('somebody')
  expect(await text()).not.toContain('made-up')
})
