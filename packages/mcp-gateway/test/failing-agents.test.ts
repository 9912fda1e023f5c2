import { END, START, StateGraph } from '@langchain/langgraph'
import { expect, test } from 'vitest'
import { z } from 'zod'

import { bearerAuth } from '../src/http/auth/bearer.ts'
import { createGateway, type Gateway } from '../src/gateway.ts'
import type { GatewayOptions } from '../src/options.ts'
import type { AgentUpdate } from '../src/agents/agent.ts'
import { AgentsAtHand } from './agents-at-hand.ts'
import { ManualClock } from './manual-clock.ts'
import { inSession, openSession, post } from './rpc-requests.ts'

const NAMES = ['ada', 'ben', 'cleo', 'dan'] as const
type Name = (typeof NAMES)[number]

const tokenOf = (name: Name): string => `the-token-of-${name}-0123456789`
const tokens = Object.fromEntries(
  NAMES.map((name) => [name, { token: tokenOf(name), scopes: ['*'] }]),
)

/** `_meta.reason` of a call, or `ok`. */
type Call = (name: Name, args?: object) => Promise<unknown>

function callsOf(gateway: Gateway, tool: string): Call {
  const sessions = new Map<Name, Promise<string>>()
  return async (name, args = { message: 'Hi' }) => {
    const headers = { authorization: `Bearer ${tokenOf(name)}` }
    if (!sessions.has(name)) sessions.set(name, openSession(gateway.fetch, headers))
    const session = (await sessions.get(name)) ?? ''
    const params = { name: tool, arguments: args }
    const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params }
    const answer = await gateway.fetch(post(message, inSession(session, headers)))
    const text = await answer.text()
    const json = answer.headers.get('content-type')?.startsWith('text/event-stream')
      ? (text.match(/^data: (\{.*\})$/m)?.[1] ?? '{}')
      : text
    const { result } = JSON.parse(json) as {
      result?: { isError?: boolean; _meta?: { reason?: string } }
    }
    return result?.isError === true ? result['_meta']?.reason : 'ok'
  }
}

/** An agent that fails for the callers in `failing`. */
function agentsFailingFor(failing: ReadonlySet<Name>): AgentsAtHand {
  return new AgentsAtHand({
    async *shop({ principal }): AsyncIterable<AgentUpdate> {
      if (failing.has(principal.id as Name)) throw new Error('down')
      yield { type: 'done', text: 'sold' }
    },
  })
}

function gatewayOf(options: Partial<GatewayOptions>): Gateway {
  return createGateway({ auth: bearerAuth(tokens), logger: false, ...options })
}

async function repeat(times: number, call: () => Promise<unknown>): Promise<unknown[]> {
  const reasons: unknown[] = []
  for (let n = 0; n < times; n++) reasons.push(await call())
  return reasons
}

test('a caller whose calls fail is refused alone, the others go on', async () => {
  const sources = [agentsFailingFor(new Set<Name>(['ada']))]
  await using gateway = gatewayOf({ sources })
  const call = callsOf(gateway, 'shop')
  expect(await repeat(6, () => call('ada'))).toEqual([
    ...Array<string>(5).fill('agent_failed'),
    'unavailable',
  ])
  expect(await call('ben')).toBe('ok')
  expect(gateway.registry.agent('shop')?.health).toBe('healthy')
  // A success of somebody else does not open the way again for the caller whose calls fail.
  expect(await call('ada')).toBe('unavailable')
})

test('an agent that fails for three callers is refused to all, until a call succeeds', async () => {
  const clock = new ManualClock()
  const failing = new Set<Name>(NAMES)
  await using gateway = gatewayOf({ sources: [agentsFailingFor(failing)], clock })
  const call = callsOf(gateway, 'shop')
  for (const name of ['ada', 'ben'] as const) {
    expect(await repeat(5, () => call(name))).not.toContain('unavailable')
    expect(await call(name)).toBe('unavailable')
  }
  expect(await call('dan')).toBe('agent_failed')
  expect(await repeat(5, () => call('cleo'))).not.toContain('unavailable')
  expect(await call('dan')).toBe('unavailable')
  expect(gateway.registry.agent('shop')?.health).toBe('degraded')
  failing.clear()
  await clock.advance(30_000)
  expect(await call('dan')).toBe('ok')
  for (const name of NAMES) expect(await call(name)).toBe('ok')
})

test('the thresholds are options', async () => {
  const breaker = { maxFailures: 2, minCallers: 1, openMs: 1000 }
  const clock = new ManualClock()
  const failing = new Set<Name>(['ada'])
  const registry = { breaker }
  await using gateway = gatewayOf({ sources: [agentsFailingFor(failing)], registry, clock })
  const call = callsOf(gateway, 'shop')
  await repeat(2, () => call('ada'))
  expect(await call('ben')).toBe('unavailable')
  await clock.advance(1000)
  expect(await call('ben')).toBe('ok')
})

test('a threshold of 0 refuses nobody', async () => {
  const sources = [agentsFailingFor(new Set(NAMES))]
  await using gateway = gatewayOf({ sources, registry: { breaker: { maxFailures: 0 } } })
  const call = callsOf(gateway, 'shop')
  for (const name of NAMES) {
    expect(await repeat(6, () => call(name))).toEqual(Array<string>(6).fill('agent_failed'))
  }
})

test('arguments that a graph does not take are an error of their caller', async () => {
  const State = z.object({ city: z.string(), days: z.number().max(7) })
  const graph = new StateGraph(State)
    .addNode('plan', ({ city }) => ({ city: `${city}!` }))
    .addEdge(START, 'plan')
    .addEdge('plan', END)
    .compile()
  const input = (): unknown => ({ city: 5, days: 9 })
  await using gateway = gatewayOf({
    agents: { trip: { graph, description: 'Plans', input } },
    registry: { breaker: { minCallers: 1 } },
  })
  const call = callsOf(gateway, 'trip')
  const reasons = await repeat(6, () => call('ada'))
  expect(reasons).toEqual(Array<string>(6).fill('invalid_arguments'))
})
