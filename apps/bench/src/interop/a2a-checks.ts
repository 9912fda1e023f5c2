import { createGateway } from '@x/mcp-gateway'
import { a2aSource } from '@x/mcp-gateway-a2a'
import { startWeatherAgent } from './a2a-agent.ts'
import type { A2aKind, WeatherAgent } from './a2a-agent.ts'
import { expectContains, expectThat } from './check.ts'
import type { Check } from './check.ts'
import { sdkV1, sdkV2 } from './clients.ts'
import type { ClientKind, ClientUnderTest } from './clients.ts'
import { withClient } from './uses.ts'

type Use = (client: ClientUnderTest, agent: WeatherAgent) => Promise<void>

const A2A_KINDS: readonly A2aKind[] = [
  { version: '1.0', streaming: true },
  { version: '1.0', streaming: false },
  { version: '0.3', streaming: true },
  { version: '0.3', streaming: false },
]

const USES: Readonly<Record<string, Use>> = {
  'calls a skill': callsSkill,
  'answers its question': answers,
  'cancels a task': cancels,
}

/** Agents on `@a2a-js/sdk` as tools, for clients of both eras. */
export const gatewayA2a: readonly Check[] = A2A_KINDS.flatMap((kind) => {
  const how = kind.streaming ? 'that streams' : 'that is polled'
  return [sdkV1, ...sdkV2].flatMap((client) =>
    Object.entries(USES).map(([name, use]) => ({
      group: `A2A ${kind.version} agent ${how}`,
      name: `${client.name} ${name}`,
      run: () => overGateway(kind, client, use),
    })),
  )
})

async function overGateway(kind: A2aKind, client: ClientKind, use: Use): Promise<void> {
  await using agent = await startWeatherAgent(kind)
  const source = a2aSource({ cards: [agent.url], trustedOrigins: [agent.url], pollMs: 20 })
  await using gateway = createGateway({ sources: [source], http: { shutdownGraceMs: 0 } })
  const { url } = await gateway.listen({ port: 0 })
  await withClient({ kind: client, target: { url }, hasAnswers: true }, (connected) =>
    use(connected, agent),
  )
}

async function callsSkill(client: ClientUnderTest): Promise<void> {
  const names = await client.listTools()
  expectThat(names.join() === 'weather_forecast', `expected weather_forecast, got ${names.join()}`)
  const answer = await client.call('weather_forecast', 'sea')
  expectContains(answer, 'It will rain at sea.')
  expectThat(answer.split('at sea.').length === 2, 'the answer comes twice')
}

async function answers(client: ClientUnderTest): Promise<void> {
  expectContains(await client.call('weather_forecast', 'Ask'), 'It will rain at L.')
}

async function cancels(client: ClientUnderTest, agent: WeatherAgent): Promise<void> {
  const user = new AbortController()
  const started = Promise.withResolvers<void>()
  const call = client
    .call('weather_forecast', 'Wait', {
      signal: user.signal,
      onProgress: (message) => {
        if (message.includes('Looking at the sky')) started.resolve()
      },
    })
    .catch(String)
  await Promise.race([started.promise, call])
  user.abort()
  await call
  await agent.cancelled
}
