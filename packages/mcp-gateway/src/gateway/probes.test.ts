import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { AgentsAtHand } from '../../test/agents-at-hand.ts'
import { ManualClock, settled } from '../../test/manual-clock.ts'
import { modernParts, post } from '../../test/rpc-requests.ts'
import { GatewayError } from '../errors.ts'
import { createGateway } from '../gateway.ts'
import { bearerAuth } from '../http/auth/bearer.ts'
import type { GatewayObserver } from '../internal/observer.ts'
import { MemoryGatewayStore } from '../store/memory-store.ts'

const HOST = { host: '10.1.2.3:8000' }
const CALL = { name: 'support', arguments: { message: 'Hi' } }

function get(path: string): Request {
  return new Request(`http://10.1.2.3:8000${path}`, { headers: HOST })
}

test('is alive at once, and ready when the first agents are known', async () => {
  const agents = new AgentsAtHand()
  const begun = deferred()
  const start = agents.start.bind(agents)
  agents.start = async (listener) => {
    await begun.promise
    await start(listener)
  }
  await using gateway = createGateway({ sources: [agents] })
  expect((await gateway.fetch(get('/healthz'))).status).toBe(200)
  const early = await gateway.fetch(get('/readyz'))
  expect(early.status).toBe(503)
  expect(await early.json()).toEqual({ status: 'unavailable', reasons: ['agents'] })
  begun.resolve()
  await gateway.registry.whenListable()
  const ready = await gateway.fetch(get('/readyz'))
  expect(ready.status).toBe(200)
  expect(await ready.json()).toEqual({ status: 'ok' })
})

test('is alive but not ready while the store is down, and while it closes', async () => {
  const store = new MemoryGatewayStore()
  await using gateway = createGateway({ sources: [new AgentsAtHand()], store })
  await gateway.registry.start()
  await store.close()
  const away = await gateway.fetch(get('/readyz'))
  expect(await away.json()).toEqual({ status: 'unavailable', reasons: ['store'] })
  await gateway.close()
  const stopping = await gateway.fetch(get('/readyz'))
  expect(await stopping.json()).toEqual({ status: 'unavailable', reasons: ['draining'] })
  expect((await gateway.fetch(get('/healthz'))).status).toBe(200)
})

test('is not ready if the store does not answer within two seconds', async () => {
  const clock = new ManualClock()
  const store = new MemoryGatewayStore()
  store.isReady = () => new Promise(() => {})
  await using gateway = createGateway({ sources: [new AgentsAtHand()], store, clock })
  await gateway.registry.start()
  const asking = gateway.fetch(get('/readyz'))
  await clock.advance(2000)
  expect(await (await asking).json()).toEqual({ status: 'unavailable', reasons: ['store'] })
})

test('is not ready while the store cannot be written, and names the reason in the log only', async () => {
  const clock = new ManualClock()
  const store = new MemoryGatewayStore()
  const full = new GatewayError(
    'UNAVAILABLE',
    '/var/lib/gateway.db cannot be written: disk is full',
  )
  store.isReady = () => Promise.reject(full)
  const warnings: unknown[] = []
  const observer: GatewayObserver = { warned: (_message, cause) => warnings.push(cause) }
  const sources = [new AgentsAtHand()]
  await using gateway = createGateway({ sources, store, clock, log: false, observer })
  await gateway.registry.start()
  for (let n = 0; n < 3; n++) {
    const answer = await gateway.fetch(get('/readyz'))
    expect(answer.status).toBe(503)
    expect(await answer.json()).toEqual({ status: 'unavailable', reasons: ['store'] })
    await clock.advance(5000)
  }
  expect(warnings).toEqual([full])
  expect((await gateway.fetch(get('/healthz'))).status).toBe(200)
})

test('warns when it begins to listen that the store cannot be used', async () => {
  const warned = deferred<unknown>()
  const refused = new Error('connect ECONNREFUSED')
  const store = new MemoryGatewayStore()
  store.isReady = () => Promise.reject(refused)
  const observer: GatewayObserver = { warned: (_message, cause) => warned.resolve(cause) }
  await using gateway = createGateway({
    sources: [new AgentsAtHand()],
    store,
    log: false,
    observer,
  })
  await gateway.listen({ port: 0 })
  expect(await warned.promise).toBe(refused)
})

test('warns of no store that it closes', async () => {
  const checked = deferred<boolean>()
  const warnings: string[] = []
  const store = new MemoryGatewayStore()
  store.isReady = () => checked.promise
  const observer: GatewayObserver = { warned: (message) => warnings.push(message) }
  const gateway = createGateway({ sources: [new AgentsAtHand()], store, log: false, observer })
  await gateway.listen({ port: 0 })
  await gateway.close()
  checked.reject(new Error('The connection was closed'))
  await settled()
  expect(warnings).toEqual([])
})

test('checks the store once for many probes, and again after five seconds', async () => {
  const clock = new ManualClock()
  const store = new MemoryGatewayStore()
  const asked: ReturnType<typeof deferred<boolean>>[] = []
  store.isReady = () => {
    const answer = deferred<boolean>()
    asked.push(answer)
    return answer.promise
  }
  await using gateway = createGateway({ sources: [new AgentsAtHand()], store, clock })
  await gateway.registry.start()
  const status = async (): Promise<number> => (await gateway.fetch(get('/readyz'))).status
  const many = Array.from({ length: 50 }, status)
  await settled()
  expect(asked).toHaveLength(1)
  asked[0]?.resolve(true)
  expect(new Set(await Promise.all(many))).toEqual(new Set([200]))
  await clock.advance(4999)
  expect(await status()).toBe(200)
  expect(asked).toHaveLength(1)
  await clock.advance(1)
  // A store that hangs is asked once, however often the check is late.
  for (let n = 0; n < 3; n++) {
    const late = status()
    await settled()
    await clock.advance(2000)
    expect(await late).toBe(503)
    await clock.advance(5000)
  }
  expect(asked).toHaveLength(2)
  asked[1]?.resolve(true)
  await settled()
  expect(await status()).toBe(200)
})

test('serves metrics at http.metricsPath only', async () => {
  const agents = new AgentsAtHand({ support: () => [] })
  const http = { metricsPath: '/metrics', allowedHosts: ['10.1.2.3'] }
  await using gateway = createGateway({ sources: [agents], http })
  await gateway.registry.start()
  const metrics = await gateway.fetch(get('/metrics'))
  expect(metrics.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/)
  expect(await metrics.text()).toContain('\nmcp_gateway_agents{health="healthy"} 1\n')
  const written = new Request('http://10.1.2.3:8000/metrics', { method: 'POST', headers: HOST })
  expect((await gateway.fetch(written)).status).toBe(405)
  await using without = createGateway({ sources: [agents] })
  expect((await without.fetch(get('/metrics'))).status).not.toBe(200)
})

test('serves metrics to a scraper that knows the IP address only, if callers need a credential', async () => {
  const http = { metricsPath: '/metrics', publicUrl: 'https://agents.example/team' }
  const auth = bearerAuth('token-of-the-test-0123456789')
  await using gateway = createGateway({ sources: [new AgentsAtHand()], http, auth })
  expect((await gateway.fetch(get('/metrics'))).status).toBe(200)
  await using open = createGateway({ sources: [new AgentsAtHand()], http })
  expect((await open.fetch(get('/metrics'))).status).toBe(403)
})

test('answers nothing but probes at an address with probesOnly, until all calls have ended', async () => {
  const begun = deferred()
  const finish = deferred()
  const agents = new AgentsAtHand({
    support: async function* () {
      begun.resolve()
      await finish.promise
      yield { type: 'done', text: 'Done' }
    },
  })
  const http = { host: '0.0.0.0', port: 0, metricsPath: '/metrics' }
  const gateway = createGateway({ sources: [agents], http })
  await gateway.registry.start()
  const { port } = await gateway.listen({ probesOnly: true }) // without auth, at all addresses
  const probe = (path: string): Promise<Response> => fetch(`http://127.0.0.1:${port}${path}`)
  expect((await probe('/healthz')).status).toBe(200)
  expect((await probe('/readyz')).status).toBe(200)
  expect(await (await probe('/metrics')).text()).toContain('\nmcp_gateway_store_ready 1\n')
  for (const path of ['/mcp', '/', '/artifacts/a']) expect((await probe(path)).status).toBe(404)

  const { message, headers } = modernParts('tools/call', CALL)
  const answer = gateway.fetch(post(message, headers))
  await begun.promise
  const closed = gateway.close()
  const draining = await probe('/readyz')
  expect(await draining.json()).toEqual({ status: 'unavailable', reasons: ['draining'] })
  finish.resolve()
  expect(await (await answer).text()).toContain('Done')
  await closed
  await expect(probe('/healthz')).rejects.toThrow('fetch failed')
})
