import { createDispatcher } from '@x/mcp-transport'
import type { Dispatcher } from '@x/mcp-transport'
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import { startRecordingProxy, startLegacyServer } from '@x/mcp-testing'
import type {
  CannedAnswer,
  Exchange,
  RecordingProxy,
  LegacyServer,
  LegacyServerOptions,
} from '@x/mcp-testing'
import { McpClient } from '../src/index.ts'
import type { McpClientEvents, McpClientOptions } from '../src/index.ts'

export { stopClock } from '@x/internal/testing/clock'

export type ObservedEvent = {
  [Name in keyof McpClientEvents]: { event: Name; payload: McpClientEvents[Name] }
}[keyof McpClientEvents]

/** A stateful server, a recording proxy, and a client behind it. */
export interface Setting extends AsyncDisposable {
  readonly server: LegacyServer
  readonly proxy: RecordingProxy
  readonly client: McpClient
  /** All events of the client, in order. */
  readonly observed: readonly ObservedEvent[]
}

export interface SettingOptions {
  readonly server?: LegacyServerOptions
  readonly client?: McpClientOptions
}

export async function startSetting(options: SettingOptions = {}): Promise<Setting> {
  const server = await startLegacyServer(options.server)
  const proxy = await startRecordingProxy(server.url)
  const client = new McpClient({ url: proxy.url }, options.client)
  return {
    server,
    proxy,
    client,
    observed: recordEvents(client),
    async [Symbol.asyncDispose]() {
      await client.dispose()
      await proxy.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

/** Records every event of a client from now on. */
export function recordEvents(client: McpClient): readonly ObservedEvent[] {
  const observed: ObservedEvent[] = []
  client.on('state', (payload) => observed.push({ event: 'state', payload }))
  client.on('sessionReplaced', (payload) => observed.push({ event: 'sessionReplaced', payload }))
  client.on('toolsChanged', (payload) => observed.push({ event: 'toolsChanged', payload }))
  client.on('log', (payload) => observed.push({ event: 'log', payload }))
  client.on('exchange', (payload) => observed.push({ event: 'exchange', payload }))
  return observed
}

/** Resolves with the next event of that name. Call it before the cause of the event. */
export function next<Name extends keyof McpClientEvents>(
  client: McpClient,
  name: Name,
): Promise<McpClientEvents[Name]> {
  return new Promise((resolve) => client.on(name, resolve))
}

/** The warnings of a client. */
export function warningsOf(observed: readonly ObservedEvent[]): string[] {
  return observed.flatMap(({ event, payload }) =>
    event === 'log' && payload.level === 'warning' ? [payload.message] : [],
  )
}

/** The states of a client: `created>connecting`, … */
export function statesOf(observed: readonly ObservedEvent[]): string[] {
  return observed.flatMap(({ event, payload }) =>
    event === 'state' ? [`${payload.from}>${payload.to}`] : [],
  )
}

type Matcher = (exchange: Pick<Exchange, 'rpcMethod' | 'toolName' | 'httpMethod'>) => boolean

/** Matches requests at a proxy or a server. */
export const is: {
  readonly method: (name: string) => Matcher
  readonly tool: (name: string) => Matcher
  readonly initialize: Matcher
  readonly delete: Matcher
} = {
  method: (name) => (one) => one.rpcMethod === name,
  tool: (name) => (one) => one.toolName === name,
  initialize: (one) => one.rpcMethod === 'initialize',
  delete: (one) => one.httpMethod === 'DELETE',
}

/** Answers a request in place of the server. */
export function answerWith(
  answer: { readonly result: object } | { readonly error: object },
): CannedAnswer {
  return { status: 200, body: (id) => JSON.stringify({ jsonrpc: '2.0', id, ...answer }) }
}

/** The text of a tool's result. */
export function textOf(result: CallToolResult): string {
  return result.content.map((part) => (part.type === 'text' ? part.text : part.type)).join('\n')
}

/** The error of a rejected promise; fails if it was fulfilled. */
export async function rejectionOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => {
      throw new Error('It was expected to reject')
    },
    (error: unknown) => error,
  )
}

/** A real dispatcher that sends POST requests to another origin if `originOf` returns one. */
export function misled(
  originOf: () => string | undefined,
): AsyncDisposable & { readonly value: Dispatcher } {
  const dispatcher = createDispatcher()
  const value = dispatcher.compose((dispatch) => (options, handler) => {
    const origin = options.method === 'POST' ? originOf() : undefined
    return dispatch(origin === undefined ? options : { ...options, origin }, handler)
  })
  return { value, [Symbol.asyncDispose]: () => dispatcher.destroy() }
}
