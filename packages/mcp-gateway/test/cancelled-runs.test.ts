import { once } from 'node:events'
import { request, type ClientRequest } from 'node:http'
import { PassThrough } from 'node:stream'

import { expect, test } from 'vitest'

import { createGateway, type Gateway } from '../src/gateway.ts'
import type { GatewayOptions } from '../src/options.ts'
import type { RunEvent } from '../src/internal/run-event.ts'
import { AgentsAtHand, echo, endless } from './agents-at-hand.ts'
import { ManualClock, settled } from './manual-clock.ts'
import { JSON_HEADERS, modernParts, OPENING, toolCall } from './rpc-requests.ts'
import { WireSession } from './wire-session.ts'

const warnings: Error[] = []
process.on('warning', (warning) => void warnings.push(warning))

interface World extends AsyncDisposable {
  readonly gateway: Gateway
  readonly agents: AgentsAtHand
  readonly clock: ManualClock
  readonly events: readonly RunEvent[]
  /** Resolves when so many runs have ended. */
  ended(count: number): Promise<void>
}

function worldOf(options: GatewayOptions = {}): World {
  const clock = new ManualClock()
  const agents = new AgentsAtHand({ echo, endless })
  const events: RunEvent[] = []
  const many = 100_000
  const gateway = createGateway({
    sources: [agents],
    clock,
    observer: { runEvent: (event) => void events.push(event) },
    runs: {
      maxConcurrent: many,
      maxConcurrentPerPrincipal: many,
      timeoutMs: 1e9,
    },
    requestsPerMinute: many,
    http: { shutdownGraceMs: 0 },
    ...options,
  })
  return {
    gateway,
    agents,
    clock,
    events,
    async ended(count) {
      while (outcomes(events).length < count) await settled()
    },
    async [Symbol.asyncDispose]() {
      await gateway.close()
      // Such as one of too many listeners.
      if (warnings.length > 0)
        throw new AggregateError(warnings.splice(0), 'The process was warned')
    },
  }
}

function modernCall(id: number) {
  const params = { name: 'endless', arguments: { message: 'Go' }, _meta: { progressToken: id } }
  return modernParts('tools/call', params, id)
}

/** A call on a socket of its own, whose agent is at work. */
async function begun(
  url: string,
  { message, headers }: ReturnType<typeof modernParts>,
): Promise<ClientRequest> {
  const call = request(url, {
    method: 'POST',
    agent: false,
    headers: { ...JSON_HEADERS, ...headers },
  })
  call.on('error', () => {})
  call.end(JSON.stringify(message))
  const [response] = await once(call, 'response')
  response.on('error', () => {})
  await new Promise<void>((resolve) => {
    let text = ''
    response.on('data', (chunk: Buffer) => {
      text += String(chunk)
      if (text.includes('Accepted')) resolve()
    })
  })
  return call
}

const outcomes = (events: readonly RunEvent[]): readonly string[] =>
  events.flatMap((event) => (event.type === 'ended' ? [event.outcome] : []))

interface Leg {
  readonly name: string
  /** Begins calls, and drops their connections. */
  drop(url: string, ids: readonly number[]): Promise<void>
}

const LEGS: readonly Leg[] = [
  {
    name: 'a modern client',
    async drop(url, ids) {
      const calls = await Promise.all(ids.map((id) => begun(url, modernCall(id))))
      for (const each of calls) each.destroy()
    },
  },
  {
    name: 'a client that ended its session',
    async drop(url, ids) {
      const session = await WireSession.open(url)
      const { headers } = session
      const messages = ids.map((id) => toolCall(id, 'endless', 'Go'))
      const calls = await Promise.all(messages.map((message) => begun(url, { message, headers })))
      for (const each of calls) each.destroy()
      await session.end(url)
    },
  },
]

test.each(LEGS)('200 calls that $name dropped leave nothing', async (leg) => {
  await using world = worldOf()
  const { url } = await world.gateway.listen({ port: 0 })
  const dropSome = async (round: number): Promise<void> => {
    await leg.drop(
      url,
      Array.from({ length: 50 }, (_, n) => round * 50 + n),
    )
    await world.ended((round + 1) * 50)
  }
  const pendingBefore = world.clock.pending
  for (let round = 0; round < 4; round++) await dropSome(round)
  expect(world.agents.calls.every(({ signal }) => signal.aborted)).toBe(true)
  expect(new Set(outcomes(world.events))).toEqual(new Set(['cancelled']))
  expect(world.events.filter(({ type }) => type === 'started')).toHaveLength(200)
  expect(world.events.some(({ type }) => type === 'orphaned')).toBe(false)
  await settled()
  expect(world.clock.pending).toBeLessThanOrEqual(pendingBefore + 1)
  await world.gateway.close()
  expect(world.clock.pending).toBe(0)
})

const PIPES = [
  {
    era: 'older',
    first: OPENING,
    call: toolCall(7, 'endless', 'Go'),
  },
  { era: 'modern', first: [], call: modernCall(7).message },
] as const

test.each(
  PIPES.flatMap((pipe) => [
    { ...pipe, how: 'its notice', stop: 'notice' as const },
    { ...pipe, how: 'the end of its pipe', stop: 'end' as const },
    { ...pipe, how: 'the end of the gateway', stop: 'close' as const },
  ]),
)('over a pipe of the $era era, $how ends a call', async ({ first, call, stop }) => {
  await using world = worldOf()
  const [input, output] = [new PassThrough(), new PassThrough()]
  world.gateway.serveStdio({ input, output })
  const send = (message: object): void => void input.write(`${JSON.stringify(message)}\n`)
  for (const message of [...first, call]) send(message)
  let text = ''
  output.on('data', (chunk) => (text += String(chunk)))
  while (!text.includes('Accepted')) await once(output, 'data')
  if (stop === 'end') input.end()
  else if (stop === 'close') await world.gateway.close()
  else send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } })
  await world.ended(1)
  expect(world.agents.calls[0]?.signal.aborted).toBe(true)
  expect(outcomes(world.events)).toEqual(['cancelled'])
  await world.gateway.close()
  expect(world.clock.pending).toBe(0)
})
