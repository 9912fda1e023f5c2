import type { IncomingMessage, ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { AgentCard } from '@a2a-js/sdk'
import { LegacyJsonRpcTransportHandler } from '@a2a-js/sdk/compat/v0_3/server'
import {
  DefaultRequestHandler,
  InMemoryTaskStore,
  JsonRpcTransportHandler,
  ServerCallContext,
} from '@a2a-js/sdk/server'
import { startTestServer } from '@x/mcp-testing'
import { WeatherExecutor } from './weather-executor.ts'

/** How an agent speaks. */
export interface A2aKind {
  readonly version: '1.0' | '0.3'
  readonly streaming: boolean
}

export interface A2aAgent extends AsyncDisposable {
  readonly url: string
  /** Resolves when a task was cancelled. */
  readonly cancelled: Promise<void>
}

/** An agent as others build one, on the server side of `@a2a-js/sdk`. */
export async function startA2aAgent(kind: A2aKind): Promise<A2aAgent> {
  const executor = new WeatherExecutor()
  let card: unknown
  let handler: JsonRpcTransportHandler | LegacyJsonRpcTransportHandler | undefined
  const server = await startTestServer((request, response) => {
    if (request.url === '/.well-known/agent-card.json') sendJson(response, card)
    else if (handler) void answer(handler, request, response)
  }, '')
  const { url } = server
  card = cardOf(url, kind)
  const requests = new DefaultRequestHandler(
    AgentCard.fromJSON({ ...cardOf(url, { ...kind, version: '1.0' }) }),
    new InMemoryTaskStore(),
    executor,
  )
  handler =
    kind.version === '1.0'
      ? new JsonRpcTransportHandler(requests)
      : new LegacyJsonRpcTransportHandler(requests)
  return {
    url,
    cancelled: executor.cancelled,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

async function answer(
  handler: JsonRpcTransportHandler | LegacyJsonRpcTransportHandler,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const answers = await handler.handle(await text(request), new ServerCallContext())
  if (!(Symbol.asyncIterator in answers)) {
    sendJson(response, answers)
    return
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  for await (const event of answers) response.write(`data: ${JSON.stringify(event)}\n\n`)
  response.end()
}

function sendJson(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}

function cardOf(url: string, { version, streaming }: A2aKind): object {
  const address = `${url}/rpc`
  const skill = {
    id: 'forecast',
    name: 'Forecast',
    description: 'Tells the weather',
    tags: ['weather'],
    examples: ['Will it rain in Oslo?'],
  }
  return {
    name: 'Weather',
    description: 'Knows the weather',
    version: '1.0.0',
    capabilities: { streaming },
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: [skill],
    ...(version === '1.0'
      ? {
          supportedInterfaces: [
            { url: address, protocolBinding: 'JSONRPC', protocolVersion: version },
          ],
        }
      : { protocolVersion: '0.3.0', url: address, preferredTransport: 'JSONRPC' }),
  }
}
