import { expect, test } from 'vitest'

import { configChange } from './config-change.ts'
import type { GatewayConfig } from './gateway-config.ts'
import { readConfig } from './read-config.ts'

function config(content: Readonly<Record<string, unknown>>): GatewayConfig {
  return readConfig({ content }).config
}

test('tells what takes effect from what waits, and goes on from what took effect', () => {
  const before = config({})
  const after = config({
    agents: {
      sources: [{ type: 'langgraph', config: './langgraph.json' }],
      waitFor: { minAgents: 2 },
    },
    http: { port: 9000 },
    tools: { exclude: ['secret'], overrides: { 'a b/c': { hidden: true } }, pageSize: 5 },
    runs: { timeoutMs: 5, needsInputTtlMs: 6 },
    streaming: { heartbeatMs: 1, channel: 'log' },
    limits: { requestsPerMinutePerPrincipal: 0, subscriptions: 1 },
    sessions: { max: 2 },
    log: { level: 'debug' },
    auth: { principalClaim: 'email' },
  })
  const change = configChange(before, after)
  expect(change.live.toSorted()).toEqual([
    'agents.sources',
    'limits.requestsPerMinutePerPrincipal',
    'log.level',
    'runs.timeoutMs',
    'sessions.max',
    'streaming.heartbeatMs',
    'tools.exclude',
    'tools.overrides["a b/c"]',
  ])
  expect(change.waiting.toSorted()).toEqual([
    'agents.waitFor.minAgents',
    'auth.principalClaim',
    'http.port',
    'limits.subscriptions',
    'runs.needsInputTtlMs',
    'streaming.channel',
    'tools.pageSize',
  ])
  expect(change.config).toMatchObject({ http: { port: 8000 }, runs: { timeoutMs: 5 } })
  expect(configChange(change.config, after)).toMatchObject({ live: [], waiting: change.waiting })
  expect(configChange(change.config, before).live).toEqual(change.live)
})
