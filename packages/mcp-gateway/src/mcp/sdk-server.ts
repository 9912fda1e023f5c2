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
  type RequestOptions,
  type ServerContext,
  type ServerOptions,
} from '@modelcontextprotocol/server'

import { z } from 'zod'
import type { RequestState } from '../runs/order.ts'
import type { ClientKind, HandlerParts, McpHandlers, McpResult } from './handlers.ts'
import type { Params } from './json-rpc.ts'
import {
  askAll,
  CallerContext,
  malformedAnswer,
  QuestionTimeout,
  toClientInfo,
  type Answers,
  type Caller,
  type ClientInfo,
  type Continuation,
  type ProgressPiece,
  type Questions,
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

/** The callers of requests in flight, for servers of the SDK. */
export class Callers {
  readonly #byRequest = new WeakMap<Request, Caller>()
  readonly #local: Caller | undefined

  /** @param local caller of requests without HTTP. @default such requests are refused */
  constructor(local?: Caller) {
    this.#local = local
  }

  set(request: Request, caller: Caller): void {
    this.#byRequest.set(request, caller)
  }

  /** @throws for a request that was not authenticated */
  of(context: ServerContext): Caller {
    const request = context.http?.req
    const caller = request ? this.#byRequest.get(request) : this.#local
    if (!caller) throw new Error('An SDK server received a request that was not authenticated')
    return caller
  }
}

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

/** Clients that servers of the SDK serve: those on stdio, and those of 2026-07-28. */
type SdkClientKind = Exclude<ClientKind, 'stateless'>

/**
 * Serves handlers by servers of the SDK: requests of 2026-07-28 and stdio. Clients never share a server: it would mix up
 * their responses (CVE-2026-25536), and grow with each use (typescript-sdk #2607).
 */
export class SdkServers {
  readonly handlers: McpHandlers
  readonly #parts: ServerParts
  readonly #options: Readonly<Record<SdkClientKind, ServerOptions>>
  readonly #methods: readonly string[]

  constructor(handlers: McpHandlers, parts: ServerParts) {
    this.handlers = handlers
    this.#parts = parts
    this.#methods = handlers.methods
    this.#options = {
      session: optionsFor('session', handlers, parts),
      modern: optionsFor('modern', handlers, parts),
    }
  }

  /** @param method the only method that the client will call, if known. @default any */
  create(kind: SdkClientKind, method?: string | null): Server {
    const server = new Server(this.handlers.serverInfo, this.#options[kind])
    server.onerror = this.#parts.onError
    if (typeof method !== 'string') for (const each of this.#methods) this.#serve(server, each)
    else if (this.#methods.includes(method)) this.#serve(server, method)
    return server
  }

  #serve(server: Server, method: string): void {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the SDK has a type for each method, the table of methods has one for all
    const add = server.setRequestHandler.bind(server) as unknown as AddHandler
    const answer = (params: Params, context: ServerContext): McpResult | Promise<McpResult> => {
      const request = new SdkRequestContext(server, context, this.#parts)
      const result = this.handlers.handle(method, params, request)
      const revision = request.protocolVersion
      return result instanceof Promise
        ? result.then((each) => resultForRevision(each, revision))
        : resultForRevision(result, revision)
    }
    if (!method.startsWith('tasks/')) {
      add(method, ({ params = {} }, context) => answer(params, context))
      return
    }
    // The SDK knows methods of these names from other revisions. It takes `inputResponses` out of the parameters.
    server.setRequestHandler(method, { params: z.looseObject({}) }, (params, context) =>
      answer({ inputResponses: context.mcpReq.inputResponses, ...params }, context),
    )
  }
}

type AddHandler = (
  method: string,
  handler: (
    request: { readonly params?: Params },
    context: ServerContext,
  ) => McpResult | Promise<McpResult>,
) => void

function optionsFor(kind: SdkClientKind, handlers: McpHandlers, parts: ServerParts): ServerOptions {
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

/** A request that a server of the SDK received. */
class SdkRequestContext extends CallerContext implements RequestContext {
  readonly #server: Server
  readonly #context: ServerContext
  readonly #parts: ServerParts

  constructor(server: Server, context: ServerContext, parts: ServerParts) {
    const { id: requestId, _meta: meta = {} } = context.mcpReq
    const { headers } = context.http?.req ?? {}
    super({ requestId, meta, caller: parts.callers.of(context), headers })
    this.#server = server
    this.#context = context
    this.#parts = parts
  }

  get protocolVersion(): string {
    if (this.#context.mcpReq.envelope !== undefined) return MODERN_REVISION
    return this.#server.getNegotiatedProtocolVersion() ?? DEFAULT_REVISION
  }

  /** Modern clients describe themselves in each request, clients with a session when it begins. */
  get client(): ClientInfo {
    const envelope: Params = this.#context.mcpReq.envelope ?? {}
    const info = envelope[CLIENT_INFO_META_KEY] ?? this.#server.getClientVersion()
    const capabilities =
      envelope[CLIENT_CAPABILITIES_META_KEY] ?? this.#server.getClientCapabilities()
    return toClientInfo(info, capabilities, this.protocolVersion)
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

  get signal(): AbortSignal {
    return this.#context.mcpReq.signal
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
    }
  }

  async log(level: LoggingLevel, text: string): Promise<void> {
    await this.#context.mcpReq.log(level, text)
  }

  async ask(questions: Questions): Promise<Answers | undefined> {
    if (isModern(this.protocolVersion)) return undefined
    return askAll(questions, this.signal, (question, signal) => this.#send(question, signal))
  }

  async #send(request: InputRequest, signal: AbortSignal): Promise<InputResponse> {
    const { method, params } = questionForSession(request)
    if (method !== 'elicitation/create') {
      throw new TypeError(
        `"${method}" cannot be sent to a client on stdio: only "elicitation/create" is supported`,
      )
    }
    const { questionTimeoutMs: timeout } = this.#parts
    const options: RequestOptions = {
      timeout,
      resetTimeoutOnProgress: true,
      // The SDK sends a progress token only with a listener for progress.
      onprogress: () => undefined,
      signal,
    }
    try {
      return await this.#context.mcpReq.send({ method, params }, options)
    } catch (error) {
      if (!(error instanceof SdkError)) throw error
      if (error.code === SdkErrorCode.RequestTimeout) throw new QuestionTimeout(timeout)
      throw error.code === SdkErrorCode.InvalidResult ? malformedAnswer(method, error) : error
    }
  }

  closeStream(): void {
    this.#context.http?.closeSSE?.()
  }
}
