import { isRecord } from '@x/internal'
import type { HandledRequest, Listener, OpenResponse, ReceivedRequest } from './recorded-server.ts'
import { StatelessServer } from './recorded-server.ts'
import type { RpcId, RpcMessage } from './rpc-message.ts'
import type { ScriptedAnswer } from './scripted-answer.ts'
import { frameOf, writeAnswer } from './scripted-answer.ts'

/** Request that a handler answers. */
export interface ScriptRequest {
  /** Anything but `POST` is a fault of the client. */
  readonly httpMethod: string
  /** `{}` when the body has none, as in a GET. */
  readonly message: Partial<RpcMessage>
  readonly headers: ReceivedRequest['headers']
  /** Aborts when the client leaves before the answer. */
  readonly signal: AbortSignal
}

/** Answers requests; those it returns `undefined` for get the answer of a well-behaved server. */
export type ScriptHandler = (
  request: ScriptRequest,
) => ScriptedAnswer | undefined | Promise<ScriptedAnswer | undefined>

/** Answers by method. Of a list each answer is given once, and the last one for ever. */
export type Script = Readonly<
  Record<string, ScriptedAnswer | ScriptHandler | readonly ScriptedAnswer[]>
>

/** The DiscoverResult of a server that has everything. */
export const discoverResult: Readonly<Record<string, unknown>> = {
  supportedVersions: ['2026-07-28'],
  capabilities: {
    tools: { listChanged: true },
    prompts: { listChanged: true },
    resources: { listChanged: true, subscribe: true },
    logging: {},
    completions: {},
  },
  ttlMs: 0,
  cacheScope: 'private',
  _meta: {
    'io.modelcontextprotocol/serverInfo': { name: 'stateless-test-server', version: '1.0.0' },
  },
}

/**
 * Starts a {@link ScriptedServer} on a free port of 127.0.0.1. What `answers` leaves out:
 * `server/discover` gets {@link discoverResult}, `subscriptions/listen` a stream, `initialize` an
 * `-32022`, a notification 202, everything else 404 with `-32601`.
 *
 * @example
 * ```ts
 * import { startScriptedServer } from '@x/mcp-testing'
 *
 * await using server = await startScriptedServer({
 *   'tools/call': [{ status: 503 }, { result: { content: [] } }], // one after the other
 * })
 * ```
 */
export async function startScriptedServer(
  answers: ScriptHandler | Script = {},
): Promise<ScriptedServer> {
  const server = new ScriptedServer(answers)
  await server.start()
  return server
}

/** A hand-written server of 2026-07-28 that answers as the test says. */
export class ScriptedServer extends StatelessServer<ScriptedListener> {
  /** Answers from now on. */
  answers: ScriptHandler | Script
  /**
   * Filter that a listen stream acknowledges: all of the requested one, nothing until the test calls
   * `acknowledge()`, or the result of a function.
   */
  acknowledge: 'all' | 'later' | ((requested: unknown) => unknown) = 'all'
  /**
   * Violations of 2026-07-28 in the requests so far: `tools/call: Mcp-Method is not the method`. Empty
   * for a good client. An `initialize` is never one: clients fall back with it.
   */
  readonly violations: string[] = []
  /** Number of answers of each list that were given. */
  readonly #given = new WeakMap<readonly ScriptedAnswer[], number>()

  constructor(answers: ScriptHandler | Script) {
    super({})
    this.answers = answers
  }

  /** Drops every listen stream. Returns how many. @default 'reset' */
  dropListeners(how: 'eof' | 'reset' = 'reset'): number {
    const open = this.listeners
    for (const listener of open) listener.drop(how)
    return open.length
  }

  protected async answer({ response, message, received, call }: HandledRequest): Promise<void> {
    this.#note(received)
    const { signal } = response
    const { httpMethod, headers } = received
    const answer = await this.#answerTo({ httpMethod, message: message ?? {}, headers, signal })
    if (signal.aborted) return
    if (answer === 'listen') return this.#listen(received, response)
    const isResult = answer.result !== undefined
    if (call !== undefined && isResult) this.ledger.advance(call, 'running')
    await writeAnswer(response, answer, message?.id)
    if (call !== undefined && isResult) this.ledger.advance(call, 'answered')
  }

  /** The answer of the script, else that of a well-behaved server. */
  async #answerTo(request: ScriptRequest): Promise<ScriptedAnswer | 'listen'> {
    const { method = '', id, params } = request.message
    const scripted = await this.#scripted(request, method)
    if (scripted !== undefined) return scripted
    if (method === '') return { status: 405, headers: { allow: 'POST' } }
    if (id === undefined) return { status: 202 }
    switch (method) {
      case 'server/discover':
        return { result: discoverResult }
      case 'subscriptions/listen':
        return 'listen'
      case 'initialize': {
        const data = { supported: ['2026-07-28'], requested: params?.['protocolVersion'] }
        return { error: { code: -32022, message: 'Unsupported protocol version', data } }
      }
      default:
        return { error: { code: -32601, message: 'Method not found' } }
    }
  }

  async #scripted(request: ScriptRequest, method: string): Promise<ScriptedAnswer | undefined> {
    const { answers } = this
    if (typeof answers === 'function') return answers(request)
    const entry = Object.hasOwn(answers, method) ? answers[method] : undefined
    if (typeof entry === 'function') return entry(request)
    if (!isList(entry)) return entry
    const given = this.#given.get(entry) ?? 0
    this.#given.set(entry, given + 1)
    return entry[Math.min(given, entry.length - 1)]
  }

  #listen(received: ReceivedRequest, response: OpenResponse): void {
    const listener = new ScriptedListener(received, response)
    response.signal.addEventListener('abort', () => this.streams.changed(listener))
    const { acknowledge } = this
    if (acknowledge === 'all') listener.acknowledge()
    else if (acknowledge !== 'later') listener.acknowledge(acknowledge(listener.requested))
    this.streams.add(listener)
  }

  #note(received: ReceivedRequest): void {
    const { rpcMethod, rpcId, httpMethod } = received
    if (rpcMethod === 'initialize') return
    const found = violationsOf(received)
    const isIdInUse = this.received.some(
      (one) => one !== received && one.rpcId === rpcId && one.end === undefined,
    )
    if (rpcId !== undefined && isIdInUse) found.push('the id is that of an unanswered request')
    this.violations.push(...found.map((fault) => `${rpcMethod ?? httpMethod}: ${fault}`))
  }
}

function isList(entry: Script[string] | undefined): entry is readonly ScriptedAnswer[] {
  return Array.isArray(entry)
}

const SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId'

/** A `subscriptions/listen` stream that the test controls. Messages to a closed stream are lost. */
export class ScriptedListener implements Listener {
  /** Id of the request, which is the id of the subscription. */
  readonly id: RpcId | undefined
  readonly requested: unknown
  readonly #response: OpenResponse

  constructor(received: ReceivedRequest, response: OpenResponse) {
    this.id = received.rpcId
    this.requested = received.params?.['notifications']
    this.#response = response
    response.raw.writeHead(200, { 'content-type': 'text/event-stream' })
    response.raw.flushHeaders()
  }

  get isOpen(): boolean {
    return this.#response.isOpen
  }

  /** Acknowledges a filter. @default the requested one */
  acknowledge(honoured: unknown = this.requested): void {
    this.notify('notifications/subscriptions/acknowledged', { notifications: honoured })
  }

  /** Sends a notification, with the id of the subscription in its `_meta`. */
  notify(method: string, params: Readonly<Record<string, unknown>> = {}): void {
    this.send(frameOf({ method, params: { ...params, _meta: { [SUBSCRIPTION_ID]: this.id } } }))
  }

  /** Writes raw text: a comment, or an event without the id of the subscription. */
  send(frame: string): void {
    if (this.isOpen) this.#response.raw.write(frame)
  }

  /** The graceful end: a result, then the end of the stream. */
  end(): void {
    if (!this.isOpen) return
    const result = { resultType: 'complete', _meta: { [SUBSCRIPTION_ID]: this.id } }
    this.send(frameOf({ id: this.id, result }))
    this.#response.raw.end()
  }

  /** An end without a result: `eof` of the body, or a `reset` of the connection. */
  drop(how: 'eof' | 'reset' = 'reset'): void {
    if (!this.isOpen) return
    if (how === 'eof') this.#response.raw.end()
    else this.#response.reset()
  }
}

const prefix = 'io.modelcontextprotocol/'

/** Parameter that `Mcp-Name` repeats. The same methods may ask for input. */
const nameParameters = new Map([
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
  ['tasks/get', 'taskId'],
  ['tasks/update', 'taskId'],
  ['tasks/cancel', 'taskId'],
])

/**
 * Rules of 2026-07-28 that a request breaks (basic/transports/streamable-http and basic/index). Requests
 * of older revisions break some: they have no `_meta` of this kind.
 */
function violationsOf(request: ReceivedRequest): string[] {
  if (request.httpMethod !== 'POST') return [`${request.httpMethod} does not exist`]
  const { rpcMethod, rpcId, headers, params } = request
  if (rpcMethod === undefined) return ['not a JSON-RPC request']
  const meta = isRecord(params?.['_meta']) ? params['_meta'] : {}
  const version = meta[`${prefix}protocolVersion`]
  const nameParameter = nameParameters.get(rpcMethod)
  const name = nameParameter === undefined ? undefined : params?.[nameParameter]
  const claims: readonly (readonly [boolean, string])[] = [
    [typeof rpcId === 'string' || Number.isInteger(rpcId), 'the id is no string or integer'],
    [acceptsBoth(headers['accept']?.toString()), 'accept does not list JSON and event streams'],
    [String(headers['content-type']).startsWith('application/json'), 'content-type is not JSON'],
    [typeof version === 'string', '_meta has no protocolVersion'],
    [version === request.protocolVersion, 'MCP-Protocol-Version is not that of _meta'],
    [isRecord(meta[`${prefix}clientCapabilities`]), '_meta has no clientCapabilities'],
    [headers['mcp-method'] === rpcMethod, 'Mcp-Method is not the method'],
    [decoded(headers['mcp-name']) === name, 'Mcp-Name is not the name'],
    [nameParameter !== undefined || !isRetry(params), 'only some methods can be continued'],
    [request.sessionId === undefined, 'there is a session id'],
    [request.lastEventId === undefined, 'there is a last event id'],
  ]
  return claims.filter(([holds]) => !holds).map(([, fault]) => fault)
}

/** The request continues an earlier one (basic/patterns/mrtr). */
function isRetry(params: ReceivedRequest['params'] = {}): boolean {
  return 'requestState' in params || 'inputResponses' in params
}

function acceptsBoth(accept = ''): boolean {
  return accept.includes('application/json') && accept.includes('text/event-stream')
}

/** The value of a header that may be base64 in the form `=?base64?…?=`. */
function decoded(value: ReceivedRequest['headers'][string]): unknown {
  const [, encoded] = /^=\?base64\?(.*)\?=$/.exec(String(value)) ?? []
  return encoded === undefined ? value : Buffer.from(encoded, 'base64').toString()
}
