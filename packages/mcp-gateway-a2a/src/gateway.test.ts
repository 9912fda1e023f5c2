import { deferred } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'

import { type A2aAgent, filePart, startA2aAgent, textPart, urlPart } from '../test/a2a-agent.ts'
import { CLIENT_KINDS, connect } from '../../mcp-gateway/test/mcp-clients.ts'
import { createGateway } from '@x/mcp-gateway'
import type { Gateway } from '@x/mcp-gateway'
import { systemClock } from '@x/mcp-gateway/adapter'
import { a2aSource } from './source.ts'

function gatewayFor(agent: A2aAgent): Gateway {
  return createGateway({
    log: false,
    sources: [
      a2aSource({
        cards: [agent.url],
        trustedOrigins: [agent.origin],
        clock: { ...systemClock, after: (ms, act) => systemClock.after(Math.min(ms, 20), act) },
      }),
    ],
  })
}

describe.each(CLIENT_KINDS)('a client: %s', (kind) => {
  test('finds the skills of an agent, calls one, and gets its progress', async () => {
    await using agent = await startA2aAgent((turn) => {
      turn.begin()
      turn.status(2, 'Looking at the sky')
      turn.artifact('a', [textPart('It will ')], { lastChunk: false })
      turn.artifact('a', [textPart('rain.')], { append: true })
      turn.status(3, 'It will rain.')
    })
    await using gateway = gatewayFor(agent)
    const { url } = await gateway.listen({ port: 0 })
    await using client = await connect(kind, url)
    const { tools } = await client.listTools()
    expect(tools).toMatchObject([
      {
        name: 'weather_forecast',
        title: 'Weather: Forecast',
        description: expect.stringContaining('Will it rain in Oslo?') as string,
      },
    ])
    const progress: string[] = []
    const result = await client.callTool('weather_forecast', 'Rain?', {
      onProgress: (text) => progress.push(text),
    })
    expect(result['content']).toEqual([{ type: 'text', text: 'It will rain.' }])
    expect(progress.join('')).toContain('Looking at the sky')
    expect(progress.join('')).toContain('It will rain.')
  })

  test('gets a notification when an agent leaves, comes back and changes', async () => {
    await using agent = await startA2aAgent((turn) => turn.answer('Hello'))
    await using gateway = gatewayFor(agent)
    const { url } = await gateway.listen({ port: 0 })
    let changed = deferred()
    await using client = await connect(kind, url, { onToolsChanged: () => changed.resolve() })
    const names = async (): Promise<readonly string[]> => {
      const { tools } = await client.listTools()
      return tools.map(({ name }) => name)
    }
    const after = async (card: Readonly<Record<string, unknown>> | number) => {
      changed = deferred()
      agent.serve(card)
      await changed.promise
      return names()
    }
    expect(await names()).toEqual(['weather_forecast'])
    expect(await after(404)).toEqual([])
    expect(await after({})).toEqual(['weather_forecast'])
    const skills = [{ id: 'storm', name: 'Storm', description: 'Warns of storms' }]
    expect(await after({ skills })).toEqual(['weather_storm'])
  })

  test('gets the reason of a failed task, and counts failed calls of an agent that cannot be reached', async () => {
    await using agent = await startA2aAgent((turn) => {
      turn.begin()
      turn.status(7, 'Not for me')
    })
    await using gateway = gatewayFor(agent)
    const { url } = await gateway.listen({ port: 0 })
    await using client = await connect(kind, url)
    const rejected = await client.callTool('weather_forecast', 'Go')
    expect(rejected).toMatchObject({ isError: true })
    expect(JSON.stringify(rejected['content'])).toContain('Not for me')
    agent.refuseMessages()
    for (let n = 0; n < 5; n++) {
      expect(await client.callTool('weather_forecast', 'Go')).toMatchObject({ isError: true })
    }
    const [status] = gateway.registry.status().agents
    expect(status?.reason).toContain('its last runs failed')
  })
})

test('puts files of an agent into the result', async () => {
  await using agent = await startA2aAgent((turn) => {
    turn.begin()
    turn.artifact('a', [filePart('notes.txt', Buffer.from('Sun, '), 'text/plain')], {
      lastChunk: false,
    })
    turn.artifact('a', [filePart('notes.txt', Buffer.from('rain'), 'text/plain')], { append: true })
    turn.artifact('b', [urlPart('report.txt', `${agent.url}/report.txt`, 'text/plain')])
    turn.status(3, 'Here they are')
  })
  await using gateway = gatewayFor(agent)
  const { url } = await gateway.listen({ port: 0 })
  await using client = await connect('v1', url)
  const { content } = await client.callTool('weather_forecast', 'Go')
  expect(content).toMatchObject([
    { type: 'text', text: 'Here they are' },
    { type: 'resource', resource: { mimeType: 'text/plain', text: 'Sun, rain' } },
    { type: 'resource', resource: { mimeType: 'text/plain', text: 'A report' } },
  ])
})

test('cancels the tasks of its runs when the gateway stops, and waits for that', async () => {
  const wasCancelled = deferred()
  const isRunning = deferred()
  await using agent = await startA2aAgent(async (turn) => {
    turn.begin()
    isRunning.resolve()
    await turn.cancelled
    wasCancelled.resolve()
  })
  const gateway = createGateway({
    log: false,
    sources: [a2aSource({ cards: [agent.url], trustedOrigins: [agent.origin] })],
    http: { shutdownGraceMs: 0 },
  })
  const { url } = await gateway.listen({ port: 0 })
  await using client = await connect('v2 pinned', url)
  const call = client.callTool('weather_forecast', 'Go').catch((error: unknown) => error)
  await isRunning.promise
  await gateway.close()
  expect(agent.methods).toContain('CancelTask')
  await wasCancelled.promise
  await call
})
