import { deferred } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'

import { AgentsAtHand, echo, endless } from '../test/agents-at-hand.ts'
import { CLIENT_KINDS, connect } from '../test/mcp-clients.ts'
import { Runtime } from './gateway/runtime.ts'
import { createGateway, gatewayWith } from './gateway.ts'
import type { AgentUpdate } from './agents/agent.ts'

describe.each(CLIENT_KINDS)('a client: %s', (kind) => {
  test('lists the tools, calls one, and receives its progress', async () => {
    const agents = new AgentsAtHand({ echo })
    await using gateway = createGateway({ sources: [agents], log: false })
    const { url } = await gateway.listen({ port: 0 })
    await using client = await connect(kind, url)

    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name)).toEqual(['echo'])
    const heard: string[] = []
    const result = await client.callTool('echo', 'Hello', {
      onProgress: (text) => heard.push(text),
    })
    expect(result['content']).toEqual([{ type: 'text', text: 'Hello' }])
    expect(heard).toEqual(['Accepted by echo', 'Hello'])
    await expect(client.ping()).resolves.toBeDefined()
  })

  test('receives all progress that an agent sends at once, before the answer', async () => {
    const agents = new AgentsAtHand({
      *quick(): Iterable<AgentUpdate> {
        for (const text of ['a', 'b', 'c']) yield { type: 'status', text }
        yield { type: 'text', text: 'Draft' }
        yield { type: 'status', text: 'd' }
        yield { type: 'done', text: 'Answer' }
      },
    })
    await using gateway = createGateway({ sources: [agents], log: false })
    const { url } = await gateway.listen({ port: 0 })
    await using client = await connect(kind, url)
    const heard: string[] = []
    const result = await client.callTool('quick', 'Go', { onProgress: (text) => heard.push(text) })
    expect(heard).toEqual(['Accepted by quick', 'a', 'b', 'c', 'Draft', 'd'])
    expect(result['content']).toEqual([{ type: 'text', text: 'Answer' }])
  })

  test('stops an agent by cancelling its call', async () => {
    const agents = new AgentsAtHand({ endless })
    await using gateway = createGateway({ sources: [agents], log: false })
    const { url } = await gateway.listen({ port: 0 })
    await using client = await connect(kind, url)

    const stop = new AbortController()
    const begun = deferred()
    const call = client.callTool('endless', 'Go', {
      signal: stop.signal,
      onProgress: (text) => text === 'begun' && begun.resolve(),
    })
    await begun.promise
    stop.abort()
    await expect(call).rejects.toThrow(/abort/i)
    await aborted(agents.calls[0]?.signal)
  })

  test('gets one notification for several new agents', async () => {
    const agents = new AgentsAtHand({ echo })
    await using gateway = gatewayWith({ sources: [agents] }, { debounceMs: 1 })
    const { url } = await gateway.listen({ port: 0 })
    const changed = deferred()
    let count = 0
    await using client = await connect(kind, url, {
      onToolsChanged: () => {
        count++
        changed.resolve()
      },
    })
    await client.listTools()
    for (let n = 0; n < 20; n++) agents.join(`agent${n}`, echo)
    await changed.promise
    expect((await client.listTools()).tools).toHaveLength(21)
    expect(count).toBe(1)
  })

  test('answers the question of an agent, and the run continues', async () => {
    const agents = new AgentsAtHand({
      *shop({ resume }): Iterable<AgentUpdate> {
        if (resume) {
          const { answers } = resume
          yield { type: 'done', text: `Bought: ${JSON.stringify(Object.values(answers))}` }
        } else {
          yield { type: 'asked', questions: [{ id: 'q', message: 'Which one?' }], state: { at: 1 } }
        }
      },
    })
    await using gateway = createGateway({ sources: [agents], log: false })
    const { url } = await gateway.listen({ port: 0 })
    await using client = await connect(kind, url, { answer: () => ({ answer: 'the red one' }) })
    const result = await client.callTool('shop', 'Buy a car')
    expect(JSON.stringify(result['content'])).toContain('the red one')
    expect(agents.calls).toHaveLength(2)
  })

  test('gets the same error for a tool that never existed and for one that left', async () => {
    const agents = new AgentsAtHand({ weather: echo, wetter: echo })
    await using gateway = gatewayWith({ sources: [agents] }, { debounceMs: 1 })
    const { url } = await gateway.listen({ port: 0 })
    await using client = await connect(kind, url)
    await client.listTools()
    const unknown = (name: string): object => ({
      code: -32_602,
      message: expect.stringContaining(`Unknown tool: ${name}. List the tools again.`),
    })
    await expect(client.callTool('wether', 'Rain?')).rejects.toMatchObject(unknown('wether'))
    const left = new Promise<void>((resolve) => {
      gateway.registry.on('changed', () => resolve())
    })
    agents.leave('wetter')
    await left
    await expect(client.callTool('wetter', 'Rain?')).rejects.toMatchObject(unknown('wetter'))
  })
})

test('ignores an output schema that cannot be compiled', async () => {
  const agents = new AgentsAtHand()
  const outputSchema = { type: 'array', items: { type: 'string' } }
  const skills = [{ id: 'count', name: 'count', description: '', outputSchema }]
  agents.join('counter', () => [{ type: 'done', structured: { total: 3 } }], { skills })
  await using gateway = createGateway({ sources: [agents], log: false })
  const { url } = await gateway.listen({ port: 0 })
  await using client = await connect('v2 pinned', url)
  const result = await client.callTool('counter_count', 'Go')
  expect(result).toMatchObject({ structuredContent: { total: 3 } })
  expect(gateway.registry.plan().warnings.join()).toContain('output schema of counter_count')
})

test('sends at most two notifications for a hundred agents that come and go, in both eras', async () => {
  const agents = new AgentsAtHand({ echo })
  await using gateway = gatewayWith({ sources: [agents] }, { debounceMs: 5 })
  const { url } = await gateway.listen({ port: 0 })
  const counts = [0, 0, 0, 0, 0, 0, 0, 0]
  const clients = await Promise.all(
    counts.map((_, at) => {
      const onToolsChanged = (): void => {
        counts[at] = (counts[at] ?? 0) + 1
      }
      return connect(at % 2 === 0 ? 'v1' : 'v2 pinned', url, { onToolsChanged })
    }),
  )
  await Promise.all(clients.map((client) => client.listTools()))
  for (let n = 0; n < 100; n++) agents.join(`agent${n}`, echo)
  for (let n = 0; n < 50; n++) agents.leave(`agent${n}`)
  while (counts.some((count) => count === 0)) await new Promise(setImmediate)
  for (const client of clients) expect((await client.listTools()).tools).toHaveLength(51)
  expect(Math.max(...counts)).toBeLessThanOrEqual(2)
  await Promise.all(clients.map((client) => client[Symbol.asyncDispose]()))
})

test('opens one session for each client of a revision with sessions, and none for modern clients', async () => {
  await using runtime = new Runtime({ sources: [new AgentsAtHand({ echo })] })
  const { url } = await runtime.listen({ port: 0 })
  await using modern = await connect('v2 pinned', url)
  for (let n = 0; n < 5; n++) await modern.callTool('echo', 'again')
  expect(runtime.sessions).toBe(0)
  await using legacy = await connect('v1', url)
  for (let n = 0; n < 5; n++) await legacy.callTool('echo', 'again')
  expect(runtime.sessions).toBe(1)
  await using other = await connect('v1', url)
  await other.ping()
  expect(runtime.sessions).toBe(2)
})

test('answers each of two clients of different eras with its own text', async () => {
  await using gateway = createGateway({
    sources: [new AgentsAtHand({ echo })],
    runs: { maxConcurrentPerPrincipal: 64 },
  })
  const { url } = await gateway.listen({ port: 0 })
  const clients = await Promise.all(CLIENT_KINDS.map((kind) => connect(kind, url)))
  const words = clients.flatMap((client, at) =>
    Array.from({ length: 10 }, async (_, n) => {
      const { content } = await client.callTool('echo', `${at}/${n}`)
      expect(content).toEqual([{ type: 'text', text: `${at}/${n}` }])
    }),
  )
  await Promise.all(words)
  await Promise.all(clients.map((client) => client[Symbol.asyncDispose]()))
})

/** A call that is never stopped makes the test run into its time limit. */
async function aborted(signal: AbortSignal | undefined): Promise<void> {
  if (!signal) throw new Error('There was no call')
  if (signal.aborted) return
  await new Promise((resolve) => {
    signal.addEventListener('abort', resolve)
  })
}
