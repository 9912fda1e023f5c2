import {
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2,
} from '@modelcontextprotocol/client'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { expect, test } from 'vitest'

import { createGateway } from '../src/gateway.ts'
import { AgentsAtHand, echo } from './agents-at-hand.ts'

const INFO = { name: 'test', version: '1.0.0' }
const modern = { versionNegotiation: { mode: { pin: '2026-07-28' } } } as const

async function connected(kind: string, url: URL): Promise<ClientV1 | ClientV2> {
  if (kind === 'v1') {
    const client = new ClientV1(INFO)
    await client.connect(new TransportV1(url))
    return client
  }
  const client = new ClientV2(INFO, modern)
  await client.connect(new TransportV2(url))
  return client
}

test.each(['v1', 'v2'])(
  'a client (%s) lists, completes and fills a prompt with arguments',
  async (kind) => {
    const city = { type: 'string', enum: ['Paris', 'Rome'] }
    const skill = {
      id: 'weather',
      name: 'weather',
      description: 'Tells the weather',
      examples: ['Weather in {city}?'],
      inputSchema: { type: 'object', properties: { city } },
    }
    const agents = new AgentsAtHand()
    agents.join('meteo', echo, { skills: [skill] })
    await using gateway = createGateway({ sources: [agents], artifacts: { quota: 0 } })
    const { url } = await gateway.listen({ port: 0 })
    const client = await connected(kind, new URL(url))
    const { prompts } = await client.listPrompts()
    expect(prompts).toMatchObject([
      { name: 'meteo_weather_example_1', arguments: [{ name: 'city', required: true }] },
    ])
    const name = prompts[0]?.name ?? ''
    const argument = { name: 'city', value: 'r' }
    const { completion } = await client.complete({ ref: { type: 'ref/prompt', name }, argument })
    expect(completion.values).toEqual(['Rome'])
    const { messages } = await client.getPrompt({ name, arguments: { city: 'Rome' } })
    expect(messages[0]?.content).toEqual({ type: 'text', text: 'Weather in Rome?' })
    await expect(client.getPrompt({ name })).rejects.toMatchObject({ code: -32602 })
    const unknown = { ref: { type: 'ref/prompt', name: 'none' } as const, argument }
    await expect(client.complete(unknown)).rejects.toMatchObject({ code: -32602 })
    await client.close()
  },
)
