import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'

import {
  AgentCard,
  type Message,
  type Part,
  Role,
  type Task,
  TaskState,
  taskStateFromJSON,
} from '@a2a-js/sdk'
import { LegacyJsonRpcTransportHandler } from '@a2a-js/sdk/compat/v0_3/server'
import {
  AgentEvent,
  DefaultRequestHandler,
  type ExecutionEventBus,
  InMemoryTaskStore,
  JsonRpcTransportHandler,
  type RequestContext,
  ServerCallContext,
  type TaskStore,
} from '@a2a-js/sdk/server'
import { startTestServer } from '@x/mcp-testing'

import { answerRest } from './a2a-rest.ts'

/** What the agent of a test does with one message. */
export type AgentScript = (turn: AgentTurn) => Promise<void> | void

export interface A2aAgentOptions {
  /** Laid over the card, as JSON of A2A 1.0. */
  readonly card?: Readonly<Record<string, unknown>>
  /** @default true */
  readonly streaming?: boolean
  /** @default '1.0' */
  readonly version?: '1.0' | '0.3'
  /** How 1.0 is spoken. @default 'JSONRPC' */
  readonly binding?: 'JSONRPC' | 'HTTP+JSON'
  /** @default '/.well-known/agent-card.json' */
  readonly cardPath?: string
  /** Signs or otherwise changes what is served as its card. */
  readonly served?: (card: AgentCard) => Promise<AgentCard>
}

export interface A2aAgent extends AsyncDisposable {
  readonly url: string
  readonly origin: string
  /** Methods by their names in JSON-RPC, in the order in which they came. */
  readonly methods: readonly string[]
  readonly requests: readonly {
    readonly line: string
    readonly headers: IncomingMessage['headers']
  }[]
  /** What is served from now on: a card laid over the first one, or a status. */
  serve(card: Readonly<Record<string, unknown>> | number): void
  /** Answers every message with an error of the protocol. */
  refuseMessages(): void
  /** Forgets all tasks, as a server does that keeps them in memory and starts again. */
  forget(): void
  /** Breaks the streams that are open. */
  cutStreams(): void
  /** Resolves when a method with that name has been called so often. */
  called(method: string, times?: number): Promise<void>
}

const skill = {
  id: 'forecast',
  name: 'Forecast',
  description: 'Tells the weather',
  tags: ['weather'],
  examples: ['Will it rain in Oslo?'],
}

/** An agent on the server side of `@a2a-js/sdk`, over plain `node:http`. */
export async function startA2aAgent(
  script: AgentScript,
  {
    card = {},
    streaming = true,
    version = '1.0',
    binding = 'JSONRPC',
    cardPath = '/.well-known/agent-card.json',
    served,
  }: A2aAgentOptions = {},
): Promise<A2aAgent> {
  const methods: string[] = []
  const requests: { line: string; headers: IncomingMessage['headers'] }[] = []
  const waiting = new Set<() => void>()
  const streams = new Set<ServerResponse>()
  let over: Readonly<Record<string, unknown>> = card
  let status = 200
  let isRefusing = false
  let url = ''
  const cardOf = (): AgentCard =>
    AgentCard.fromJSON({
      name: 'Weather',
      description: 'Knows the weather',
      version: '1',
      supportedInterfaces: [
        {
          url: binding === 'JSONRPC' ? `${url}/rpc` : `${url}/rest`,
          protocolBinding: binding,
          protocolVersion: version,
        },
      ],
      capabilities: { streaming },
      defaultInputModes: ['text/plain'],
      defaultOutputModes: ['text/plain'],
      skills: [skill],
      ...over,
    })
  let handler: JsonRpcTransportHandler | LegacyJsonRpcTransportHandler | undefined

  const sendCard = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (status !== 200) return void response.writeHead(status).end()
    const json =
      version === '0.3' ? legacyCard(url, over, streaming) : await signed(cardOf(), served)
    const body = JSON.stringify(json)
    const etag = `"${createHash('sha256').update(body).digest('hex')}"`
    if (request.headers['if-none-match'] === etag) return void response.writeHead(304).end()
    response.writeHead(200, { 'content-type': 'application/json', etag }).end(body)
  }
  const noteMethod = (method: string): void => {
    methods.push(method)
    for (const look of waiting) look()
  }
  const call = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = JSON.parse(await text(request)) as { method: string; id: unknown }
    noteMethod(body.method)
    if (isRefusing && /^(Send|message)/.test(body.method)) {
      const error = { code: -32_603, message: 'Not now' }
      return sendJson(response, { jsonrpc: '2.0', id: body.id, error })
    }
    const context = new ServerCallContext({ requestedVersion: version })
    const answer = await handler?.handle({ ...body }, context)
    if (answer === undefined || !(Symbol.asyncIterator in answer)) {
      return sendJson(response, answer)
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.flushHeaders()
    streams.add(response)
    try {
      for await (const event of answer) response.write(`data: ${JSON.stringify(event)}\n\n`)
    } catch (error) {
      const failure = {
        jsonrpc: '2.0',
        id: body.id,
        error: { code: -32_603, message: String(error) },
      }
      response.write(`data: ${JSON.stringify(failure)}\n\n`)
    }
    streams.delete(response)
    response.end()
  }
  const server = await startTestServer((request, response) => {
    requests.push({ line: `${request.method} ${request.url}`, headers: request.headers })
    for (const look of waiting) look()
    if (request.url === '/rpc') void call(request, response)
    else if (request.url?.startsWith('/rest/')) {
      void answerRest(request, response, {
        handler: () => requestHandler,
        onMethod: noteMethod,
        onStream: (stream) => streams.add(stream),
      })
    } else if (request.url === cardPath) void sendCard(request, response)
    else if (request.url === '/report.txt') response.writeHead(200).end('A report')
    else response.writeHead(404).end()
  }, '')
  url = server.url
  let tasks = new InMemoryTaskStore()
  const store: TaskStore = {
    save: (...entry) => tasks.save(...entry),
    load: (...task) => tasks.load(...task),
    list: (...query) => tasks.list(...query),
  }
  const requestHandler = new DefaultRequestHandler(cardOf(), store, {
    execute: async (context, bus) => {
      const turn = new AgentTurn(context, bus)
      await script(turn)
    },
    cancelTask: async (taskId, bus) => {
      const contextId = contexts.get(taskId) ?? ''
      const canceled = {
        state: TaskState.TASK_STATE_CANCELED,
        message: undefined,
        timestamp: undefined,
      }
      bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: canceled, metadata: {} }))
      cancelled.get(taskId)?.()
    },
  })
  handler =
    version === '0.3'
      ? new LegacyJsonRpcTransportHandler(requestHandler)
      : new JsonRpcTransportHandler(requestHandler)
  const until = (isSo: () => boolean): Promise<void> =>
    new Promise((resolve) => {
      const look = (): void => {
        if (!isSo()) return
        waiting.delete(look)
        resolve()
      }
      waiting.add(look)
      look()
    })
  return {
    url,
    origin: new URL(url).origin,
    methods,
    requests,
    serve: (next) => {
      if (typeof next === 'number') status = next
      else {
        status = 200
        over = next
      }
    },
    refuseMessages: () => {
      isRefusing = true
    },
    forget: () => {
      tasks = new InMemoryTaskStore()
    },
    cutStreams: () => {
      for (const stream of streams) stream.destroy()
    },
    called: (method, times = 1) =>
      until(() => {
        const lines = [...methods, ...requests.map(({ line }) => line)]
        return lines.filter((line) => line === method).length >= times
      }),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

const contexts = new Map<string, string>()
const cancelled = new Map<string, () => void>()

/** One message to the agent, and what it says to it. */
export class AgentTurn {
  readonly context: RequestContext
  readonly #bus: ExecutionEventBus

  constructor(context: RequestContext, bus: ExecutionEventBus) {
    this.context = context
    this.#bus = bus
    contexts.set(context.taskId, context.contextId)
  }

  get message(): Message {
    return this.context.userMessage
  }

  get words(): string {
    const [first] = this.message.parts
    return first?.content?.$case === 'text' ? first.content.value : ''
  }

  /** The task goes on that was left waiting. */
  get isContinued(): boolean {
    return this.context.task !== undefined
  }

  /** Resolves when somebody cancels the task. */
  get cancelled(): Promise<void> {
    return new Promise((resolve) => {
      cancelled.set(this.context.taskId, resolve)
    })
  }

  begin(): void {
    const task: Task = {
      ...this.#ids,
      id: this.context.taskId,
      status: { state: TaskState.TASK_STATE_SUBMITTED, message: undefined, timestamp: undefined },
      artifacts: [],
      history: [],
      metadata: {},
    }
    this.#bus.publish(AgentEvent.task(task))
  }

  /** A state by its number in A2A 1.0, with words or parts. */
  status(state: number, said?: string | readonly Part[]): void {
    const parts = typeof said === 'string' ? [textPart(said)] : (said ?? [])
    const message = parts.length === 0 ? undefined : this.#messageOf(parts)
    const status = {
      state: taskStateFromJSON(state),
      message,
      timestamp: new Date(0).toISOString(),
    }
    this.#bus.publish(AgentEvent.statusUpdate({ ...this.#ids, status, metadata: {} }))
  }

  artifact(
    artifactId: string,
    parts: readonly Part[],
    { append = false, lastChunk = true }: { append?: boolean; lastChunk?: boolean } = {},
  ): void {
    const artifact = {
      artifactId,
      name: '',
      description: '',
      parts: [...parts],
      metadata: {},
      extensions: [],
    }
    this.#bus.publish(
      AgentEvent.artifactUpdate({ ...this.#ids, artifact, append, lastChunk, metadata: {} }),
    )
  }

  /** A whole answer without a task. */
  answer(said: string): void {
    this.#bus.publish(AgentEvent.message({ ...this.#messageOf([textPart(said)]), taskId: '' }))
  }

  get #ids(): { taskId: string; contextId: string } {
    return { taskId: this.context.taskId, contextId: this.context.contextId }
  }

  #messageOf(parts: readonly Part[]): Message {
    return {
      ...this.#ids,
      messageId: crypto.randomUUID(),
      role: Role.ROLE_AGENT,
      parts: [...parts],
      metadata: {},
      extensions: [],
      referenceTaskIds: [],
    }
  }
}

export function textPart(value: string): Part {
  return { content: { $case: 'text', value }, filename: '', mediaType: 'text/plain', metadata: {} }
}

export function filePart(filename: string, bytes: Buffer, mediaType: string): Part {
  return { content: { $case: 'raw', value: bytes }, filename, mediaType, metadata: {} }
}

export function urlPart(filename: string, value: string, mediaType: string): Part {
  return { content: { $case: 'url', value }, filename, mediaType, metadata: {} }
}

export function dataPart(value: unknown): Part {
  return { content: { $case: 'data', value }, filename: '', mediaType: '', metadata: {} }
}

function sendJson(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}

async function signed(card: AgentCard, served: A2aAgentOptions['served']): Promise<unknown> {
  return AgentCard.toJSON(served ? await served(card) : card)
}

function legacyCard(url: string, over: object, streaming: boolean): unknown {
  return {
    protocolVersion: '0.3.0',
    name: 'Weather',
    description: 'Knows the weather',
    url: `${url}/rpc`,
    preferredTransport: 'JSONRPC',
    version: '1',
    capabilities: { streaming },
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: [skill],
    ...over,
  }
}
