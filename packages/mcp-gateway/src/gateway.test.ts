import { deferred } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'

import { AgentsAtHand, echo } from '../test/agents-at-hand.ts'
import { CLIENT_KINDS, connect } from '../test/mcp-clients.ts'
import { createGateway } from './gateway.ts'
import { Runtime } from './gateway/runtime.ts'
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

  test('gets one notification for several new agents', async () => {
    const agents = new AgentsAtHand({ echo })
    await using gateway = new Runtime({ sources: [agents] }, { debounceMs: 1 })
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

  test('gets the same error for a tool that never existed and for one that left', async () => {
    const agents = new AgentsAtHand({ weather: echo, wetter: echo })
    await using gateway = new Runtime({ sources: [agents] }, { debounceMs: 1 })
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

test('names the path of its endpoint to a request for another path', async () => {
  await using gateway = createGateway({ sources: [], http: { path: '/agents' }, log: false })
  const { url } = await gateway.listen({ port: 0 })
  const response = await fetch(new URL('/sse', url), { method: 'POST', body: '{}' })
  expect(response.status).toBe(404)
  expect(await response.text()).toBe('Not found: MCP is served at /agents\n')
})
