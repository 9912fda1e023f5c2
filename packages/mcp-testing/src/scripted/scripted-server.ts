import type { IncomingMessage, ServerResponse } from 'node:http'
import type { LoopbackServer } from '../loopback-server.ts'
import { listenOnLoopback } from '../loopback-server.ts'
import type { Mutable } from '../mutable.ts'
import type { ReceivedRequest } from '../received-request.ts'
import { countOfMethod, receivedRequestFrom } from '../received-request.ts'
import type { WaitForOptions } from '../recording.ts'
import { Recording } from '../recording.ts'
import { requestBody } from '../request-body.ts'
import type { RpcMessage } from '../rpc-message.ts'
import { rpcMessageFrom } from '../rpc-message.ts'
import { modernFaultsOf } from './modern-faults.ts'
import type { ResponseEnd } from './open-response.ts'
import { OpenResponse } from './open-response.ts'
import type { ScriptedAnswer } from './scripted-answer.ts'
import { writeAnswer } from './scripted-answer.ts'
import { ScriptedListener } from './scripted-listener.ts'

/** What a handler is asked. */
export interface StatelessRequest {
  /** Anything but `POST` is a fault of the client. */
  readonly httpMethod: string
  /** Empty when there is none, as in a GET. */
  readonly message: RpcMessage
  readonly headers: ReceivedRequest['headers']
  /** Aborts when the response is over, which before the answer means that the client has left. */
  readonly signal: AbortSignal
}

/** Answers requests; those it returns `undefined` for get the answer of a well-behaved server. */
export type StatelessHandler = (
  request: StatelessRequest,
) => ScriptedAnswer | undefined | Promise<ScriptedAnswer | undefined>

/** Answers by method. Of a list each answer is given once, and the last one for ever. */
export type StatelessScript = Readonly<
  Record<string, ScriptedAnswer | StatelessHandler | readonly ScriptedAnswer[]>
>

/** Options of {@link startScriptedServer}; each is a property of the server, too. */
export interface ScriptedServerOptions {
  /** Members of the DiscoverResult, over those of {@link discoverResult}. @default none */
  readonly discover?: Readonly<Record<string, unknown>> | undefined
  /**
   * How a listen stream begins: with everything acknowledged, with what a function makes of the
   * filter, or with nothing until the test says `acknowledge()`.
   *
   * @default 'all'
   */
  readonly acknowledge?: 'all' | 'later' | ((requested: unknown) => unknown) | undefined
}

/** A request and what became of it. */
export interface StatelessExchange extends ReceivedRequest {
  /** As it went out. Absent while there is no answer. */
  readonly status?: number | undefined
  /** Absent while it goes on. */
  readonly end?: ResponseEnd | undefined
}

/** A hand-written server of 2026-07-28 that answers as it is told. */
export interface ScriptedServer extends AsyncDisposable {
  /** Ends in `/mcp`. */
  readonly url: string
  /** Every HTTP request, in the order of arrival; also those of before a restart. */
  readonly received: readonly StatelessExchange[]
  /**
   * What was wrong with the requests so far, by the rules of 2026-07-28: `tools/call: Mcp-Method is
   * not the method`. Empty for a good client. `initialize` is never one: how else to fall back?
   */
  readonly faults: readonly string[]
  /** TCP connections accepted so far. */
  readonly connections: number
  /** Open listen streams. */
  readonly listeners: readonly ScriptedListener[]
  /** Answers from now on. */
  answers: StatelessHandler | StatelessScript
  discover: Readonly<Record<string, unknown>>
  acknowledge: 'all' | 'later' | ((requested: unknown) => unknown)
  /** Requests of a JSON-RPC method (`tools/call`) or an HTTP method (`GET`). */
  count(method: string): number
  /** The first request that matches; asked again when it ends. */
  waitFor(
    matches: (exchange: StatelessExchange) => boolean,
    options?: WaitForOptions,
  ): Promise<StatelessExchange>
  /** The first listen stream that matches, closed ones included; asked again when one closes. */
  waitForListener(
    matches: (listener: ScriptedListener) => boolean,
    options?: WaitForOptions,
  ): Promise<ScriptedListener>
  /** Drops every listen stream. Returns how many. @default 'reset' */
  dropListeners(how?: 'eof' | 'reset'): number
  /** A crash: sockets are reset, the port stays. Ends when it listens again. */
  restart(): Promise<void>
}

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
 */
export async function startScriptedServer(
  answers: StatelessHandler | StatelessScript = {},
  options: ScriptedServerOptions = {},
): Promise<ScriptedServer> {
  const server = new StatelessHttpServer(answers, options)
  await server.start()
  return server
}

class StatelessHttpServer implements ScriptedServer {
  answers: StatelessHandler | StatelessScript
  discover: Readonly<Record<string, unknown>>
  acknowledge: ScriptedServer['acknowledge']
  readonly faults: string[] = []
  readonly #exchanges = new Recording<Mutable<StatelessExchange>>('requests to the server')
  readonly #listeners = new Recording<ScriptedListener>('listen streams')
  /** How many answers of each list were given. */
  readonly #given = new WeakMap<readonly ScriptedAnswer[], number>()
  readonly #open = new Set<OpenResponse>()
  #http: LoopbackServer | undefined

  constructor(answers: StatelessHandler | StatelessScript, options: ScriptedServerOptions) {
    const { discover = {}, acknowledge = 'all' } = options
    this.answers = answers
    this.discover = discover
    this.acknowledge = acknowledge
  }

  async start(): Promise<void> {
    this.#http = await listenOnLoopback((request, response) => {
      this.#handle(request, response).catch((error: unknown) => {
        response.destroy()
        throw error // a handler of the test is wrong: it shall fail
      })
    })
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}/mcp`
  }

  get received(): readonly StatelessExchange[] {
    return this.#exchanges.entries
  }

  get connections(): number {
    return this.#server.connections
  }

  get listeners(): readonly ScriptedListener[] {
    return this.#listeners.entries.filter((listener) => listener.isOpen)
  }

  count(method: string): number {
    return countOfMethod(this.received, method)
  }

  waitFor(
    matches: (exchange: StatelessExchange) => boolean,
    options?: WaitForOptions,
  ): Promise<StatelessExchange> {
    return this.#exchanges.waitFor(matches, options)
  }

  waitForListener(
    matches: (listener: ScriptedListener) => boolean,
    options?: WaitForOptions,
  ): Promise<ScriptedListener> {
    return this.#listeners.waitFor(matches, options)
  }

  dropListeners(how: 'eof' | 'reset' = 'reset'): number {
    const open = this.listeners
    for (const listener of open) listener.drop(how)
    return open.length
  }

  restart(): Promise<void> {
    for (const open of this.#open) open.reset()
    return this.#server.restart()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.close()
    this.#exchanges.close()
    this.#listeners.close()
  }

  get #server(): LoopbackServer {
    if (this.#http === undefined) throw new TypeError('Not started')
    return this.#http
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await requestBody(request).catch(() => undefined)
    if (body === undefined) return // the client left in the middle of its request
    const message = request.method === 'POST' ? rpcMessageFrom(body.toString()) : undefined
    const exchange: Mutable<StatelessExchange> = receivedRequestFrom(
      request,
      message,
      this.#server.connectionOf(request),
    )
    const open = new OpenResponse(response, (end) => {
      if (response.headersSent) exchange.status = response.statusCode
      exchange.end = end
      this.#open.delete(open)
      this.#exchanges.changed(exchange)
    })
    this.#open.add(open)
    this.#note(exchange)
    this.#exchanges.add(exchange)

    const { signal } = open
    const { httpMethod, headers } = exchange
    const answer = await this.#answerTo({ httpMethod, message: message ?? {}, headers, signal })
    if (signal.aborted) return
    if (answer === 'listen') this.#listen(exchange, open)
    else await writeAnswer(open, answer, message?.id)
  }

  /** What `answers` says, else what a well-behaved server says. */
  async #answerTo(request: StatelessRequest): Promise<ScriptedAnswer | 'listen'> {
    const { method = '', id, params } = request.message
    const told = await this.#told(request, method)
    if (told !== undefined) return told
    if (method === '') return { status: 405, headers: { allow: 'POST' } }
    if (id === undefined) return { status: 202 }
    switch (method) {
      case 'server/discover':
        return { result: { ...discoverResult, ...this.discover } }
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

  async #told(request: StatelessRequest, method: string): Promise<ScriptedAnswer | undefined> {
    const { answers } = this
    if (typeof answers === 'function') return answers(request)
    const entry = Object.hasOwn(answers, method) ? answers[method] : undefined
    if (typeof entry === 'function') return entry(request)
    if (!isList(entry)) return entry
    const given = this.#given.get(entry) ?? 0
    this.#given.set(entry, given + 1)
    return entry[Math.min(given, entry.length - 1)]
  }

  #listen(exchange: StatelessExchange, open: OpenResponse): void {
    const listener = new ScriptedListener(exchange, open)
    open.signal.addEventListener('abort', () => this.#listeners.changed(listener))
    const { acknowledge } = this
    if (acknowledge === 'all') listener.acknowledge()
    else if (acknowledge !== 'later') listener.acknowledge(acknowledge(listener.requested))
    this.#listeners.add(listener)
  }

  #note(exchange: StatelessExchange): void {
    const { rpcMethod, rpcId, httpMethod } = exchange
    if (rpcMethod === 'initialize') return
    const faults = modernFaultsOf(exchange)
    const isIdInUse = this.received.some((one) => one.rpcId === rpcId && one.end === undefined)
    if (rpcId !== undefined && isIdInUse) faults.push('the id is that of an unanswered request')
    this.faults.push(...faults.map((fault) => `${rpcMethod ?? httpMethod}: ${fault}`))
  }
}

function isList(entry: StatelessScript[string] | undefined): entry is readonly ScriptedAnswer[] {
  return Array.isArray(entry)
}
