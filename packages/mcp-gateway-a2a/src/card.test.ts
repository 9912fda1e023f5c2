import { generateKeyPair, exportJWK } from 'jose'
import { AgentCard, generateAgentCardSignature } from '@a2a-js/sdk'
import { deferred, startTestServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { startA2aAgent } from '../test/a2a-agent.ts'
import { started, callOf, all, rain } from '../test/a2a-world.ts'
import { ManualClock, settled } from '../../mcp-gateway/test/manual-clock.ts'
import { a2aSource } from './source.ts'
import { parseCardAddress, unreachableAddresses } from './card.ts'

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

/** Time and randomness of a source. `next()` resolves after the look at the card that is due then. */
function looking() {
  const clock = new ManualClock()
  let looked = deferred()
  // Asked for once after each look.
  const random = (): number => {
    looked.resolve()
    return 0.5
  }
  const next = async (ms: number): Promise<void> => {
    looked = deferred()
    await clock.advance(ms)
    await looked.promise
  }
  return { clock, random, next }
}

test('reads a card again by its tag, reports changes and removal, and reads less often after failures', async () => {
  await using agent = await startA2aAgent(rain)
  const { clock, random, next } = looking()
  await using world = await started(agent, { clock, random })
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
  expect(address.urls[0].href).toBe(url)
  expect(address.agentId).toBe(agentId)
})

test.for(['file:///etc/passwd', 'agent', 'https://user:secret@a.example'])(
  'refuses %s as the URL of a card',
  (given) => {
    expect(() => parseCardAddress(given)).toThrow(expect.objectContaining({ code: 'CONFIG' }))
    expect(() => parseCardAddress(given)).not.toThrow(/secret/)
  },
)

test('finds a card at the path of earlier versions, and asks there first from then on', async () => {
  const cardPath = '/.well-known/agent.json'
  await using agent = await startA2aAgent(rain, { cardPath })
  const { next, ...timing } = looking()
  await using world = await started(agent, timing)
  await next(20_000)
  expect(agent.requests.map(({ line }) => line)).toEqual([
    'GET /.well-known/agent-card.json',
    `GET ${cardPath}`,
    `GET ${cardPath}`,
  ])
  expect(world.agents).toMatchObject([{ id: `a2a:${agent.origin}` }, {}])
  expect(world.warnings).toEqual([])
})

test('does not take the page of a server for a card, and says where it looked', async () => {
  await using server = await startTestServer((request, response) => {
    const isNew = request.url === '/.well-known/agent-card.json'
    response.writeHead(isNew ? 404 : 200, { 'content-type': 'text/html' }).end('<p>Home</p>')
  }, '')
  const { origin } = new URL(server.url)
  await using world = await started({ url: server.url, origin })
  expect(world.told).toEqual(['gone'])
  expect(world.warnings).toEqual([
    `a2a:${origin}: There is no agent card at /.well-known/agent-card.json or /.well-known/agent.json`,
    undefined,
  ])
})

test.for([
  ['https://agents.example/a2a', undefined],
  ['https://[2606:4700::1]/', undefined],
  ['http://0.0.0.0:9999/', 'http://0.0.0.0:9999, which cannot be called: agents listen'],
  ['https://[::]:1/', 'https://[::]:1, which cannot be called: agents listen'],
  [
    'http://localhost:10001/?key=secret',
    'http://localhost:10001, which cannot be called: it is an',
  ],
  ['https://127.0.0.1/', 'an address of the machine of the gateway'],
  ['https://agent.localhost/', 'an address of the machine of the gateway'],
  ['https://[::1]/', 'an address of the machine of the gateway'],
  ['https://10.1.2.3/', 'it is a private address'],
  ['https://192.168.1.2/', 'it is a private address'],
  ['https://[fd00::1]/', 'it is a private address'],
  ['http://agents.example/', 'it does not use https'],
  ['http://10.0.0.7:8080/a2a', undefined],
  ['https:', 'not a URL'],
] as const)('judges the address %s of a card', ([url, problem]) => {
  const card = AgentCard.fromJSON({
    name: 'Weather',
    supportedInterfaces: [
      { url, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
      { url: 'http://0.0.0.0/', protocolBinding: 'GRPC', protocolVersion: '1.0' },
    ],
  })
  const found = unreachableAddresses(card, ['http://10.0.0.7:8080'])
  expect(found).toHaveLength(problem === undefined ? 0 : 1)
  expect(found.join('')).toContain(problem ?? '')
  expect(found.join('')).not.toContain('secret')
})

test('warns once of an address in a card that cannot be called', async () => {
  const supportedInterfaces = [
    { url: 'http://0.0.0.0:9999/', protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
  ]
  await using agent = await startA2aAgent(rain, { card: { supportedInterfaces } })
  const { next, ...timing } = looking()
  await using world = await started(agent, timing)
  await next(20_000)
  expect(world.told).toEqual(['found Weather', 'found Weather'])
  expect(world.warnings).toEqual([
    expect.stringContaining('The agent card names http://0.0.0.0:9999, which cannot be called'),
    undefined,
  ])
})
