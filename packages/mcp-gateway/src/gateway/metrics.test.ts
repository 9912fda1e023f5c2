import { readFile } from 'node:fs/promises'
import { setTimeout } from 'node:timers/promises'

import { expect, test } from 'vitest'

import { agentOf, FakeSource, worldOf } from '../../test/registry-world.ts'
import { registryOptions } from '../../test/settings.ts'
import { AgentRegistry } from '../tools/agent-registry.ts'
import { boundedLabels, gatewayMetrics, type MetricSources } from './metrics.ts'
import type { ObservedCall } from '../internal/observer.ts'

const sourcesOf = (registry: AgentRegistry): MetricSources => ({
  registry: () => registry,
  countQueued: async () => 7,
  isStoreReady: async () => false,
  unreadBytes: () => 4096,
})

test('counts labels beyond a thousand sets as other', () => {
  const bounded = boundedLabels()
  for (let i = 0; i < 1000; i++) expect(bounded({ tool: `t${i}` })).toEqual({ tool: `t${i}` })
  expect(bounded({ tool: 'one more' })).toEqual({ tool: 'other' })
  expect(bounded({ tool: 't3' })).toEqual({ tool: 't3' })
})

test('documents each metric, and no other, on the page about operation', async () => {
  const { text, close } = gatewayMetrics(sourcesOf(new AgentRegistry(registryOptions({}))))
  const readme = await readFile(
    new URL('../../../../docs/gateway/deploy.md', import.meta.url),
    'utf8',
  )
  const named = [...readme.matchAll(/(?<=`)(?:mcp_gateway|process|nodejs)_\w+(?=`)/g)].join('\n')
  const made = [...(await text()).matchAll(/(?<=^# TYPE )\S+/gm)].join('\n')
  close()
  expect(made.split('\n')).toHaveLength(24)
  expect(named.split('\n').toSorted()).toEqual(made.split('\n').toSorted())
})

test('counts the work of a gateway without principals and without names that clients invent', async () => {
  const skills = ['w', 'x', 'y', 'z'].map((id) => ({ id, name: id, description: '' }))
  await using world = worldOf([
    new FakeSource([agentOf('a', { skills }), agentOf('b', { health: 'degraded' })]),
  ])
  await world.registry.start()
  const { observer, text, close } = gatewayMetrics(sourcesOf(world.registry))
  const call: ObservedCall = {
    tool: 'support',
    isKnown: true,
    principal: 'somebody@example.com',
    isAnonymous: false,
    era: 'modern',
    address: undefined,
    trace: undefined,
  }
  const end = { runId: undefined, outcome: 'ok', durationMs: 40, requestBytes: 10, resultBytes: 20 }
  observer.callEnded?.(call, end)
  observer.callEnded?.({ ...call, tool: 'made-up', isKnown: false }, end)
  const names = { runId: 'run_1', agentId: 'a', skillId: 's', principal: 'p' }
  const tool = 'a "quoted"\n\\ one'
  observer.runEvent?.({ type: 'ended', outcome: 'timeout', durationMs: 10, ...names, tool })
  observer.requestRefused?.({ reason: 'origin', status: 403, address: undefined })
  observer.sessionOpened?.()
  observer.sessionOpened?.()
  observer.sessionClosed?.({ reason: 'idle', openMs: 1 })
  const written = await text()
  close()
  expect(written.split('\n')).toEqual(
    expect.arrayContaining([
      'mcp_gateway_calls_total{tool="support",outcome="ok"} 1',
      'mcp_gateway_calls_total{tool="unknown",outcome="ok"} 1',
      'mcp_gateway_call_duration_seconds_bucket{le="0.05",tool="support"} 1',
      'mcp_gateway_runs_total{tool="a \\"quoted\\"\\n\\\\ one",outcome="timeout"} 1',
      'mcp_gateway_refused_requests_total{reason="origin"} 1',
      'mcp_gateway_sessions 1',
      'mcp_gateway_agents{health="healthy"} 1',
      'mcp_gateway_agents{health="degraded"} 1',
      'mcp_gateway_tools 5',
      'mcp_gateway_queued_tasks 7',
      'mcp_gateway_store_ready 0',
      'mcp_gateway_unread_bytes 4096',
    ]),
  )
  expect(written).not.toMatch(/somebody|made-up/)
})

/** Values by name, of metrics without labels. */
function valuesIn(text: string): ReadonlyMap<string, number> {
  const lines = text.matchAll(/^(\w+) (\S+)$/gm)
  return new Map([...lines].map(([, name = '', value]) => [name, Number(value)]))
}

test('counts the CPU time since the start of the process, and measures its memory and its event loop', async () => {
  const { text, close } = gatewayMetrics(sourcesOf(new AgentRegistry(registryOptions({}))))
  const before = valuesIn(await text())
  const { user, system } = process.cpuUsage()
  expect(before.get('process_cpu_seconds_total')).toBeLessThanOrEqual((user + system) / 1e6)
  expect(before.get('process_cpu_seconds_total')).toBeGreaterThan(0)
  expect(before.get('process_start_time_seconds')).toBeCloseTo(performance.timeOrigin / 1000, 3)
  expect(before.get('process_resident_memory_bytes')).toBeGreaterThan(1e7)
  // A delay is the time between two samples, and a read begins anew: the event loop must turn before and after the block.
  const lagAfterBlock = async (): Promise<number | undefined> => {
    await setTimeout(50)
    const startedAt = performance.now()
    while (performance.now() < startedAt + 200);
    await setTimeout(50)
    return valuesIn(await text()).get('nodejs_eventloop_lag_max_seconds')
  }
  await expect.poll(lagAfterBlock).toBeGreaterThan(0.1)
  const after = valuesIn(await text())
  for (const name of ['process_cpu_user_seconds_total', 'process_cpu_seconds_total']) {
    expect(after.get(name)).toBeGreaterThan(before.get(name) ?? Infinity)
  }
  close()
})
