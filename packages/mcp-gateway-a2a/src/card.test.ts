import { generateKeyPair, exportJWK } from 'jose'
import { generateAgentCardSignature } from '@a2a-js/sdk'
import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { startA2aAgent } from '../test/a2a-agent.ts'
import { started, callOf, all, rain } from '../test/a2a-world.ts'
import { ManualClock, settled } from '../../mcp-gateway/test/manual-clock.ts'
import { a2aSource } from './source.ts'
import { parseCardAddress } from './card.ts'

test('calls the function for credentials before each request', async () => {
  await using agent = await startA2aAgent(rain)
  let asked = 0
  const headers = async () => ({ authorization: `Bearer ${++asked}` })
  await using world = await started(agent, { card: { headers } })
  await all(world.source.run(callOf(world)))
  expect(agent.methods).toEqual(['SendStreamingMessage'])
  expect(agent.requests.map((each) => each.headers.authorization)).toEqual(['Bearer 1', 'Bearer 2'])
})

test('delays only one read of a card by a function for credentials that never answers', async () => {
  await using agent = await startA2aAgent(rain)
  const clock = new ManualClock()
  let headers: () => Promise<Record<string, string>> = () => new Promise(() => undefined)
  const start = started(agent, { clock, random: () => 0.5, card: { headers: () => headers() } })
  await settled()
  await clock.advance(10_000)
  await using world = await start
  expect(world.warnings[1]).toMatchObject({ code: 'UNAVAILABLE' })
  expect(agent.requests).toEqual([])
  headers = async () => ({})
  await clock.advance(20_000)
  await agent.called('GET /.well-known/agent-card.json')
})

test('reads a card again by its tag, reports changes and removal, and reads less often after failures', async () => {
  await using agent = await startA2aAgent(rain)
  const clock = new ManualClock()
  let looked = deferred()
  // Asked for once after each look.
  const random = (): number => {
    looked.resolve()
    return 0.5
  }
  await using world = await started(agent, { clock, random })
  const next = async (ms: number): Promise<void> => {
    looked = deferred()
    await clock.advance(ms)
    await looked.promise
  }
  await next(20_000)
  expect(agent.requests.at(-1)?.headers['if-none-match']).toBeDefined()
  expect(world.agents[1]).toBe(world.agents[0])
  agent.serve({ name: 'Climate' })
  await next(20_000)
  agent.serve(503)
  await next(20_000)
  await next(20_000)
  await clock.advance(39_000)
  expect(agent.requests).toHaveLength(5)
  await next(1000)
  expect(world.warnings).toHaveLength(2)
  agent.serve({})
  await next(80_000)
  agent.serve(404)
  await next(20_000)
  agent.serve({ supportedInterfaces: [] })
  await next(20_000)
  agent.serve({})
  await next(20_000)
  expect(world.told).toEqual([
    'found Weather',
    'found Weather',
    'found Climate',
    'unreachable',
    'unreachable',
    'unreachable',
    'found Weather',
    'gone',
    'gone',
    'found Weather',
  ])
  await world.source.close()
  expect(clock.pending).toBe(0)
})

test('refuses a card that none of the keys signed', async () => {
  const [ours, theirs] = await Promise.all([generateKeyPair('ES256'), generateKeyPair('ES256')])
  const sign = (key: Parameters<typeof generateAgentCardSignature>[0]) =>
    generateAgentCardSignature(key, { alg: 'ES256', kid: 'k1', typ: 'JOSE' })
  const signatureKeys = [{ ...(await exportJWK(ours.publicKey)), kid: 'k1' }]
  await using good = await startA2aAgent(rain, { served: sign(ours.privateKey) })
  await using known = await started(good, { card: { signatureKeys } })
  expect(known.told).toEqual(['found Weather'])
  await using bad = await startA2aAgent(rain, { served: sign(theirs.privateKey) })
  await using forged = await started(bad, { card: { signatureKeys } })
  expect(forged.told).toEqual(['gone'])
  await using none = await startA2aAgent(rain)
  await using unsigned = await started(none, { card: { signatureKeys } })
  expect(unsigned.told).toEqual(['gone'])
  expect(String(unsigned.warnings[1])).toContain('is not signed with one of the keys')
})

test('sends credentials to the origin of the card only, and puts them in no message', async () => {
  await using other = await startA2aAgent(rain)
  const supportedInterfaces = [
    { url: `${other.url}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
  ]
  await using agent = await startA2aAgent(rain, { card: { supportedInterfaces } })
  const headers = { authorization: 'Bearer very-secret' }
  await using world = await started(agent, {
    card: { headers },
    trustedOrigins: [agent.origin, other.origin],
  })
  expect(agent.requests[0]?.headers.authorization).toBe('Bearer very-secret')
  await all(world.source.run(callOf(world)))
  expect(other.requests.at(-1)?.headers.authorization).toBeUndefined()
  agent.serve(500)
  await using failed = await started(agent, { card: { headers } })
  expect(
    JSON.stringify(failed.warnings, (_, value: unknown) =>
      value instanceof Error ? [value.message, value.cause] : value,
    ),
  ).not.toContain('very-secret')
})

test('refuses addresses that are not public, for a card and for the agent', async () => {
  await using agent = await startA2aAgent(rain)
  await using untrusted = await started(agent, { trustedOrigins: [] })
  expect(untrusted.told).toEqual([])
  expect(untrusted.warnings[1]).toMatchObject({ code: 'REFUSED' })
  expect(agent.requests).toEqual([])
  await using inner = await startA2aAgent(rain)
  const supportedInterfaces = [
    { url: `${inner.url}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
  ]
  await using outer = await startA2aAgent(rain, { card: { supportedInterfaces } })
  await using world = await started(outer)
  await expect(all(world.source.run(callOf(world)))).rejects.toMatchObject({ code: 'REFUSED' })
  expect(inner.requests).toEqual([])
})

test('refuses two equal cards, and a trusted origin that is not a URL', () => {
  expect(() => a2aSource({ cards: [], trustedOrigins: ['10.0.0.7'] })).toThrow(
    expect.objectContaining({ code: 'CONFIG' }),
  )
  expect(() => a2aSource({ cards: ['https://a.example', 'https://a.example/'] })).toThrow(
    expect.objectContaining({ code: 'CONFIG' }),
  )
})

test.for([
  ['https://a.example', 'https://a.example/.well-known/agent-card.json', 'a2a:https://a.example'],
  ['https://a.example/', 'https://a.example/.well-known/agent-card.json', 'a2a:https://a.example'],
  [
    'https://a.example/x/',
    'https://a.example/x/.well-known/agent-card.json',
    'a2a:https://a.example/x',
  ],
  [
    'https://a.example/.well-known/agent-card.json?key=1#x',
    'https://a.example/.well-known/agent-card.json?key=1',
    'a2a:https://a.example',
  ],
  ['https://a.example/card.json', 'https://a.example/card.json', 'a2a:https://a.example/card.json'],
] as const)('finds the card of %s', ([given, url, agentId]) => {
  const address = parseCardAddress(given)
  expect(address.url.href).toBe(url)
  expect(address.agentId).toBe(agentId)
})

test.for(['file:///etc/passwd', 'agent', 'https://user:secret@a.example'])(
  'refuses %s as the URL of a card',
  (given) => {
    expect(() => parseCardAddress(given)).toThrow(expect.objectContaining({ code: 'CONFIG' }))
    expect(() => parseCardAddress(given)).not.toThrow(/secret/)
  },
)
