import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { AgentCard, Role, TaskState } from '@a2a-js/sdk'
import type { Message, Part } from '@a2a-js/sdk'
import { LegacyJsonRpcTransportHandler } from '@a2a-js/sdk/compat/v0_3/server'
import {
  AgentEvent,
  DefaultRequestHandler,
  InMemoryTaskStore,
  JsonRpcTransportHandler,
  ServerCallContext,
} from '@a2a-js/sdk/server'
import type { AgentExecutor, ExecutionEventBus, RequestContext } from '@a2a-js/sdk/server'
import { startTestServer } from '@x/mcp-testing'

/** Protocol of an agent. */
export interface A2aKind {
  readonly version: '1.0' | '0.3'
  readonly streaming: boolean
}

export interface A2aAgent extends AsyncDisposable {
  readonly url: string
  /** Resolves when a task was cancelled. */
  readonly cancelled: Promise<void>
}

/** Starts an agent on the server side of `@a2a-js/sdk`. */
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
    description: 'Forecasts the weather',
    tags: ['weather'],
    examples: ['Will it rain in Oslo?'],
  }
  return {
    name: 'Weather',
    description: 'Forecasts the weather',
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

/** Answers with a forecast; asks for a place after `Ask`; waits for its cancellation after `Wait`. */
class WeatherExecutor implements AgentExecutor {
  readonly #contexts = new Map<string, string>()
  readonly #cancellation = Promise.withResolvers<void>()

  get cancelled(): Promise<void> {
    return this.#cancellation.promise
  }

  readonly execute = async (
    { taskId, contextId, task, userMessage }: RequestContext,
    bus: ExecutionEventBus,
  ): Promise<void> => {
    this.#contexts.set(taskId, contextId)
    const request = userMessage.parts.map(({ content }) => content?.value).join('')
    const update = (state: TaskState, said?: string): void => {
      const message = said === undefined ? undefined : messageOf(said)
      const status = { state, message, timestamp: new Date().toISOString() }
      bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status, metadata: {} }))
    }
    const write = (said: string, append: boolean): void => {
      const artifact = {
        artifactId: 'forecast',
        name: '',
        description: '',
        parts: [partOf(said)],
        metadata: {},
        extensions: [],
      }
      const chunk = { artifact, append, lastChunk: append, metadata: {} }
      bus.publish(AgentEvent.artifactUpdate({ taskId, contextId, ...chunk }))
    }
    const status = { state: TaskState.TASK_STATE_SUBMITTED, message: undefined }
    bus.publish(
      AgentEvent.task({
        id: taskId,
        contextId,
        status: { ...status, timestamp: undefined },
        artifacts: [],
        history: [userMessage],
        metadata: {},
      }),
    )
    if (request === 'Ask' && task === undefined) {
      update(TaskState.TASK_STATE_INPUT_REQUIRED, 'Where?')
      return
    }
    update(TaskState.TASK_STATE_WORKING, 'Looking at the sky')
    if (request === 'Wait') {
      await this.cancelled
      return
    }
    write('It will rain ', false)
    write(`at ${request}.`, true)
    update(TaskState.TASK_STATE_COMPLETED, `It will rain at ${request}.`)
  }

  readonly cancelTask = async (taskId: string, bus: ExecutionEventBus): Promise<void> => {
    const contextId = this.#contexts.get(taskId) ?? ''
    const status = {
      state: TaskState.TASK_STATE_CANCELED,
      message: undefined,
      timestamp: new Date().toISOString(),
    }
    bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status, metadata: {} }))
    this.#cancellation.resolve()
  }
}

function messageOf(value: string): Message {
  return {
    messageId: randomUUID(),
    contextId: '',
    taskId: '',
    role: Role.ROLE_AGENT,
    parts: [partOf(value)],
    metadata: {},
    extensions: [],
    referenceTaskIds: [],
  }
}

function partOf(value: string): Part {
  return { content: { $case: 'text', value }, filename: '', mediaType: 'text/plain', metadata: {} }
}
