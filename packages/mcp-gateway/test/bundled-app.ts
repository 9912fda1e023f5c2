// An application with a gateway. `bundle.system.test.ts` bundles it into one file, and runs that without any package.
import { createGateway } from '../src/index.ts'
import { modernParts, JSON_HEADERS } from './rpc-requests.ts'

const inputSchema = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
}
const graph = {
  channels: { messages: {} },
  async stream() {
    return (async function* () {
      yield [[], 'values', { messages: [{ type: 'ai', content: 'Sunny' }] }]
    })()
  },
}
const skill = { id: 'ask', name: 'ask', description: 'Says the weather', inputSchema }
const weather = {
  graph,
  description: 'Weather',
  skills: [{ ...skill, startsFrom: 'arguments' as const }],
  input: () => ({ messages: [] }),
}

async function main(): Promise<void> {
  const gateway = createGateway({ agents: { weather }, http: { metricsPath: '/metrics' } })
  const { url } = await gateway.listen({ port: 0 })
  const call = async (city: unknown): Promise<unknown> => {
    const { message, headers } = modernParts('tools/call', {
      name: 'weather_ask',
      arguments: { city },
    })
    const init = { method: 'POST', headers: { ...JSON_HEADERS, ...headers } }
    return (await fetch(url, { ...init, body: JSON.stringify(message) })).json()
  }
  const answers = [await call('Rome'), await call(5)]
  const metrics = await (await fetch(new URL('/metrics', url))).text()
  await gateway.close()
  process.stdout.write(JSON.stringify({ answers, metrics }))
}

void main()
