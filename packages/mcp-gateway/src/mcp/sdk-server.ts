import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  SdkError,
  SdkErrorCode,
  Server,
  type InputRequest,
  type InputResponse,
  type jsonSchemaValidator,
  type LoggingLevel,
  type RequestId,
  type RequestOptions,
  type ServerContext,
  type ServerOptions,
} from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import type { TraceCarrier } from '../internal/observer.ts'
import { slotOwnerOf, type Principal } from '../internal/principal.ts'
import type { RequestState } from '../runs/order.ts'
import type { Caller, Callers } from './caller.ts'
import type { ClientKind, HandlerParts, McpHandlers, McpResult, Params } from './handlers.ts'
import {
  QuestionTimeout,
  readTrace,
  type ClientInfo,
  type Continuation,
  type ProgressPiece,
  type RequestContext,
  type SessionHandle,
} from './request-context.ts'
import type { SdkListeners } from './sdk-listeners.ts'
import {
  DEFAULT_REVISION,
  isModern,
  MODERN_REVISION,
  questionForSession,
  resultForRevision,
} from './revisions.ts'

/** Parts that all servers of a gateway share. */
export interface ServerParts extends HandlerParts {
  readonly callers: Callers
  /** Clients of servers of the SDK that receive notifications of changes. */
  readonly listeners: SdkListeners
  /** One for all servers: to make a validator costs more than most requests. */
  readonly validator: jsonSchemaValidator
  /** Time in which a client has to answer a question. Progress of the client extends it. */
  readonly questionTimeoutMs: number
}

/**
 * Serves handlers by servers of the SDK: stateless requests and stdio. Clients never share a server: it would mix up
 * their responses (CVE-2026-25536), and grow with each use (typescript-sdk #2607).
 */
export class SdkServers {
  readonly handlers: McpHandlers
  readonly #parts: ServerParts
  readonly #options: Readonly<Record<ClientKind, ServerOptions>>
  readonly #methods: readonly string[]

  constructor(handlers: McpHandlers, parts: ServerParts) {
    this.handlers = handlers
    this.#parts = parts
    this.#methods = handlers.methods
    this.#options = {
      session: optionsFor('session', handlers, parts),
      stateless: optionsFor('stateless', handlers, parts),
      modern: optionsFor('modern', handlers, parts),
    }
  }

  /** @param method the only method that the client will call, where that is known. @default any */
  create(kind: ClientKind, method?: string | null): Server {
    const server = new Server(this.handlers.serverInfo, this.#options[kind])
    server.onerror = this.#parts.onError
    if (typeof method !== 'string') for (const each of this.#methods) this.#serve(server, each)
    else if (this.#methods.includes(method)) this.#serve(server, method)
    return server
  }

  #serve(server: Server, method: string): void {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the SDK has a type for each method, the table of methods has one for all
    const add = server.setRequestHandler.bind(server) as unknown as AddHandler
    add(method, ({ params = {} }, context) => {
      const request = new SdkRequestContext(server, context, this.#parts)
      const result = this.handlers.handle(method, params, request)
      const revision = request.protocolVersion
      return result instanceof Promise
        ? result.then((each) => resultForRevision(each, revision))
        : resultForRevision(result, revision)
    })
  }
}

type AddHandler = (
  method: string,
  handler: (
    request: { readonly params?: Params },
    context: ServerContext,
  ) => McpResult | Promise<McpResult>,
) => void

function optionsFor(kind: ClientKind, handlers: McpHandlers, parts: ServerParts): ServerOptions {
  const { callers, lists, states, validator } = parts
  const { instructions } = handlers
  const hint = { ttlMs: lists.ttlMs, cacheScope: lists.cacheScope }
  return {
    capabilities: handlers.capabilities(kind),
    jsonSchemaValidator: validator,
    requestState: {
      verify: (state, context) => {
        const { principal } = callers.of(context)
        return states.verify(state, { method: context.mcpReq.method, principal: principal.id })
      },
    },
    // Handlers ask the clients of sessions themselves: see `ask`.
    inputRequired: { legacyShim: false },
    cacheHints: { 'server/discover': hint, 'tools/list': hint, 'prompts/list': hint },
    ...(instructions !== undefined && { instructions }),
  }
}

/** Facts about a request that a server of the SDK received. */
class SdkRequestContext implements RequestContext {
  readonly #server: Server
  readonly #context: ServerContext
  readonly #caller: Caller
  readonly #parts: ServerParts

  constructor(server: Server, context: ServerContext, parts: ServerParts) {
    this.#server = server
    this.#context = context
    this.#parts = parts
    this.#caller = parts.callers.of(context)
  }

  get requestId(): RequestId {
    return this.#context.mcpReq.id
  }

  get principal(): Principal {
    return this.#caller.principal
  }

  get protocolVersion(): string {
    const { http, mcpReq } = this.#context
    if (mcpReq.envelope !== undefined) return MODERN_REVISION
    return (
      this.#server.getNegotiatedProtocolVersion() ??
      http?.req?.headers.get('mcp-protocol-version') ??
      DEFAULT_REVISION
    )
  }

  /** Modern clients describe themselves in each request, clients with a session when it begins. */
  get client(): ClientInfo {
    const envelope: Params = this.#context.mcpReq.envelope ?? {}
    const info = envelope[CLIENT_INFO_META_KEY] ?? this.#server.getClientVersion()
    const capabilities =
      envelope[CLIENT_CAPABILITIES_META_KEY] ?? this.#server.getClientCapabilities()
    return {
      name: isRecord(info) && typeof info['name'] === 'string' ? info['name'] : undefined,
      protocolVersion: this.protocolVersion,
      capabilities: isRecord(capabilities) ? capabilities : {},
    }
  }

  get session(): SessionHandle | undefined {
    const isInSession = this.#server.getNegotiatedProtocolVersion() !== undefined
    if (!isInSession || isModern(this.protocolVersion)) return undefined
    const { listeners } = this.#parts
    return {
      subscribe: async (uri) => listeners.follow(this.#server, uri),
      unsubscribe: async (uri) => listeners.unfollow(this.#server, uri),
    }
  }

  get namespace(): string | undefined {
    return this.#caller.scope
  }

  get address(): string | undefined {
    return this.#caller.address
  }

  get bodyBytes(): number | undefined {
    const length = this.#context.http?.req?.headers.get('content-length')
    return typeof length === 'string' ? Number(length) : undefined
  }

  get signal(): AbortSignal {
    return this.#context.mcpReq.signal
  }

  get meta(): Params {
    const { _meta: meta = {} } = this.#context.mcpReq
    return meta
  }

  get trace(): TraceCarrier | undefined {
    return readTrace(this.meta, this.#context.http?.req?.headers)
  }

  get continuation(): Continuation | undefined {
    const { mcpReq } = this.#context
    const state = mcpReq.requestState<RequestState>()
    return state === undefined ? undefined : { state, responses: mcpReq.inputResponses ?? {} }
  }

  get progress(): RequestContext['progress'] {
    const { _meta: meta } = this.#context.mcpReq
    const progressToken = meta?.progressToken
    if (progressToken === undefined) return undefined
    return async (piece: ProgressPiece) => {
      const params = { progressToken, ...piece }
      await this.#context.mcpReq.notify({ method: 'notifications/progress', params })
      await this.#caller.writable?.()
    }
  }

  hasRoom(): boolean {
    return this.#caller.hasRoom?.(slotOwnerOf(this.#caller)) !== false
  }

  async log(level: LoggingLevel, text: string): Promise<void> {
    await this.#context.mcpReq.log(level, text)
    await this.#caller.writable?.()
  }

  async ask(
    requests: Readonly<Record<string, InputRequest>>,
  ): Promise<Readonly<Record<string, InputResponse>> | undefined> {
    if (isModern(this.protocolVersion)) return undefined
    const failed = new AbortController()
    const options: RequestOptions = {
      timeout: this.#parts.questionTimeoutMs,
      resetTimeoutOnProgress: true,
      // The SDK sends a token for progress only if somebody listens to it.
      onprogress: () => undefined,
      signal: AbortSignal.any([this.signal, failed.signal]),
    }
    try {
      const answers = Object.entries(requests).map(
        async ([key, request]) => [key, await this.#send(request, options)] as const,
      )
      return Object.fromEntries(await Promise.all(answers))
    } catch (error) {
      failed.abort(error)
      throw this.#questionError(error)
    }
  }

  async #send(request: InputRequest, options: RequestOptions): Promise<InputResponse> {
    const question = questionForSession(request)
    if (question.method !== 'elicitation/create') {
      throw new TypeError(
        `Cannot send ${question.method} to a client: only elicitations are supported`,
      )
    }
    const { method, params } = question
    return this.#context.mcpReq.send({ method, params }, options)
  }

  #questionError(error: unknown): unknown {
    if (!(error instanceof SdkError)) return error
    if (error.code === SdkErrorCode.RequestTimeout) {
      return new QuestionTimeout(this.#parts.questionTimeoutMs)
    }
    if (error.code !== SdkErrorCode.InvalidResult) return error
    // The validator describes each form that an answer could have had, which fills pages.
    const text =
      'The answer to an elicitation is malformed: "action" must be accept, decline or cancel, and "content" an object of plain values.'
    return new SdkError(SdkErrorCode.InvalidResult, text, { cause: error })
  }

  closeStream(): void {
    this.#context.http?.closeSSE?.()
  }
}
