import { deferred } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'

import { AgentsAtHand, echo, endless } from '../../test/agents-at-hand.ts'
import { CLIENT_KINDS, connect } from '../../test/mcp-clients.ts'
import { initialize, inSession, openSession, post, toolCall } from '../../test/rpc-requests.ts'
import { createGateway } from '../gateway.ts'
import type { LiveOptions } from '../options.ts'
import { pickLive } from './setting-paths.ts'
import { completeSettings, settingsSchema } from './settings.ts'

describe.each(CLIENT_KINDS)('a client: %s', (kind) => {
  test('is notified of changed filters and overrides, and finds them in the list', async () => {
    const agents = new AgentsAtHand({ echo, other: echo })
    await using gateway = createGateway({ sources: [agents] })
    const { url } = await gateway.listen({ port: 0 })
    const changed = deferred()
    await using client = await connect(kind, url, { onToolsChanged: changed.resolve })
    await client.listTools()
    await gateway.update({
      tools: { exclude: ['other'], overrides: { echo: { name: 'say', title: 'Says it' } } },
    })
    await changed.promise
    expect((await client.listTools()).tools).toMatchObject([{ name: 'say', title: 'Says it' }])
    expect((await client.callTool('say', 'Hello'))['content']).toEqual([
      { type: 'text', text: 'Hello' },
    ])
    await expect(client.callTool('other', 'Hello')).rejects.toMatchObject({ code: -32_602 })
  })
})

test('accepts every section with a setting that may change', async () => {
  await using gateway = createGateway({})
  const settings = completeSettings('createGateway()', {})
  const options = pickLive(settingsSchema, settings) as LiveOptions
  await expect(gateway.update(options)).resolves.toBeUndefined()
})

test('refuses wrong options and changes nothing', async () => {
  await using gateway = createGateway({ sources: [new AgentsAtHand({ echo, other: echo })] })
  await gateway.registry.start()
  const before = gateway.registry.plan()
  const clash = { echo: { name: 'same' }, other: { name: 'same' } }
  const limits = { argumentBytes: 1 }
  const update = gateway.update({ tools: { overrides: clash }, limits })
  await expect(update).rejects.toMatchObject({ code: 'CONFIG' })
  expect(gateway.registry.plan()).toBe(before)
  const session = inSession(await openSession(gateway.fetch))
  const answer = await gateway.fetch(post(toolCall(1, 'echo', 'Hello'), session))
  expect(await answer.text()).toContain('Hello')
})

test('keeps the names of two agents that want the same name after an update', async () => {
  const agents = new AgentsAtHand({ 'b agent': echo })
  await using gateway = createGateway({
    sources: [agents],
    registry: { debounceMs: 1 },
    onWarning: () => undefined,
  })
  await gateway.registry.start()
  const joined = deferred()
  gateway.registry.on('changed', () => joined.resolve())
  agents.join('b-agent', echo)
  await joined.promise
  const names = gateway.registry.plan().tools.map(({ name }) => name)
  await gateway.update({ tools: { exclude: ['nobody'] } })
  expect(gateway.registry.plan().byName('b_agent')).toBeUndefined()
  expect(gateway.registry.plan().tools.map(({ name }) => name)).toEqual(names)
})

test('applies new limits to the next request', async () => {
  await using gateway = createGateway({
    sources: [new AgentsAtHand({ echo })],
    http: { clientAddress: () => '192.0.2.1' },
  })
  const session = inSession(await openSession(gateway.fetch))
  const call = async (): Promise<string> => {
    return (await gateway.fetch(post(toolCall(1, 'echo', 'Hello'), session))).text()
  }
  expect(await call()).toContain('Hello')
  await gateway.update({ limits: { argumentBytes: 5 } })
  expect(await call()).toContain('longer than 5 bytes')
  await gateway.update({ limits: {}, sessions: { initializePerMinutePerIp: 1 } })
  expect(await call()).toContain('Hello')
  await (await gateway.fetch(initialize())).text()
  expect((await gateway.fetch(initialize())).status).toBe(429)
  await gateway.update({ limits: { requestsPerMinutePerPrincipal: 1 } })
  await call()
  expect(await call()).toContain('Too many requests')
})

test('starts a waiting call when the number of slots grows', async () => {
  const agents = new AgentsAtHand({ endless, echo })
  await using gateway = createGateway({
    sources: [agents],
    runs: { maxConcurrent: 1 },
    http: { shutdownGraceMs: 0 },
  })
  const { url } = await gateway.listen({ port: 0 })
  await using client = await connect('v1', url)
  const begun = deferred()
  const stop = new AbortController()
  const first = client.callTool('endless', 'Go', {
    signal: stop.signal,
    onProgress: (text) => text === 'begun' && begun.resolve(),
  })
  await begun.promise
  const second = client.callTool('echo', 'Hello')
  await client.ping() // it came after the call: that waits now
  await gateway.update({ runs: { maxConcurrent: 2 } })
  expect((await second)['content']).toEqual([{ type: 'text', text: 'Hello' }])
  stop.abort()
  await expect(first).rejects.toThrow(/abort/i)
})

test('completes a call in flight when its tool and its agent are removed', async () => {
  const finish = deferred()
  const one = { maxConcurrentPerPrincipal: 1 }
  const agents = new AgentsAtHand({
    echo,
    async *slow() {
      await finish.promise
      yield { type: 'done', text: 'finished' }
    },
  })
  await using gateway = createGateway({
    sources: [agents],
    registry: { debounceMs: 1 },
    runs: one,
  })
  const { url } = await gateway.listen({ port: 0 })
  await using client = await connect('v2 pinned', url)
  const begun = deferred()
  const running = client.callTool('slow', 'Go', { onProgress: () => begun.resolve() })
  await begun.promise
  const waiting = client.callTool('echo', 'Hello')
  await client.listTools()
  await gateway.update({ tools: { exclude: ['slow'] }, runs: { ...one, timeoutMs: 1 } })
  await expect(client.callTool('slow', 'Go')).rejects.toMatchObject({ code: -32_602 })
  await gateway.registry.removeSource(agents)
  finish.resolve()
  expect((await running)['content']).toEqual([{ type: 'text', text: 'finished' }])
  // It had begun nothing yet.
  await expect(waiting).resolves.toMatchObject({
    isError: true,
    _meta: { reason: 'agent_gone' },
  })
})

test('refuses an update after close()', async () => {
  const gateway = createGateway({ sources: [] })
  await gateway.close()
  await expect(gateway.update({ limits: {} })).rejects.toMatchObject({ code: 'CLOSED' })
})
