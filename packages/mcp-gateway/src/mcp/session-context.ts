import {
  isSpecType,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  type InputRequest,
  type InputResponse,
  type LoggingLevel,
  type RequestId,
} from '@modelcontextprotocol/server'
import { isRecord } from '@x/internal'

import type { Clock } from '../internal/clock.ts'
import type { TraceCarrier } from '../internal/observer.ts'
import type { Principal } from '../internal/principal.ts'
import {
  isRequestId,
  metaOf,
  RPC_ERROR,
  type Params,
  type RpcMessage,
  type RpcRequest,
  type RpcResponse,
} from './json-rpc.ts'
import {
  QuestionTimeout,
  readTrace,
  type ClientInfo,
  type Continuation,
  type ProgressPiece,
  type RequestContext,
  type SessionHandle,
} from './request-context.ts'
import { questionForSession } from './revisions.ts'
import type { LiveSession, Sessions } from './sessions.ts'

/** One HTTP request of a client, whose credential was checked. */
export interface SessionRequest {
  readonly method: string
  readonly headers: Pick<Headers, 'get'>
  /** Parsed body of a POST. */
  readonly body?: unknown
  readonly principal: Principal
  /** IP address of the client, where it is known. */
  readonly address?: string | undefined
  /** Resolves when the client can take more of the response. @default at once */
  readonly writable?: (() => Promise<void> | undefined) | undefined
  /** Returns whether there is memory for a large answer to this caller. @default always */
  readonly hasRoom?: (() => boolean) | undefined
}

/** A call whose client can be sent messages before the answer. */
export interface OpenCall {
  readonly session: LiveSession
  /** Returns whether this request waits for its answer. */
  isOpen(id: RequestId): boolean
  signalOf(id: RequestId): AbortSignal
  /** Sends a message before the answer. @throws TypeError for what JSON cannot express */
  send(message: RpcMessage): Promise<void>
  /** Resolves when the client can take more. */
  writable(): Promise<void> | undefined
  /** Ends the response. The client comes back for the rest, if it can. */
  closeStream(): void
}

export interface QuestionsOptions {
  /** Id of this process. */
  readonly process: string
  /** Time in which a client has to answer. Progress of the client extends it. */
  readonly timeoutMs: number
  readonly clock: Clock
}

/** Questions of this process that clients have not answered. */
export class Questions {
  readonly #options: QuestionsOptions
  /** By the id of their request. */
  readonly #open = new Map<RequestId, Question>()
  #asked = 0

  constructor(options: QuestionsOptions) {
    this.#options = options
  }

  /** Asks a client on the stream of a call. Rejects when `signal` aborts. */
  ask(call: OpenCall, request: InputRequest, signal: AbortSignal): Promise<InputResponse> {
    const { method, params } = questionForSession(request)
    const { clock, process, timeoutMs } = this.#options
    const id = `${process}.${++this.#asked}`
    const { session } = call
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        this.#open.delete(id)
        stopTimer()
        signal.removeEventListener('abort', onAbort)
      }
      const withdraw = (reason: unknown): void => {
        settle()
        const text = reason instanceof Error ? reason.message : 'The request has ended'
        const cancelled = { requestId: id, reason: text }
        void call.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: cancelled })
        reject(reason)
      }
      const onAbort = (): void => withdraw(signal.reason)
      const startTimer = (): (() => void) =>
        clock.after(timeoutMs, () => withdraw(new QuestionTimeout(timeoutMs)))
      let stopTimer = startTimer()
      if (signal.aborted) return onAbort()
      signal.addEventListener('abort', onAbort)
      this.#open.set(id, {
        session,
        method,
        resolve: (answer) => (settle(), resolve(answer)),
        reject: (error) => (settle(), reject(error)),
        extend: () => {
          stopTimer()
          stopTimer = startTimer()
        },
      })
      const { _meta: meta } = params ?? {}
      const named = { ...(isRecord(meta) && meta), progressToken: id }
      const message = { jsonrpc: '2.0' as const, id, method, params: { ...params, _meta: named } }
      call.send(message).catch(withdraw)
    })
  }

  /** Settles a question with the response of its client. Other clients cannot answer it. */
  answer(session: LiveSession, { id, result, error }: Partial<RpcResponse>): void {
    const question = id === undefined ? undefined : this.#open.get(id)
    if (question?.session !== session) return
    if (error) question.reject(new ProtocolError(error.code, error.message, error.data))
    else if (isAnswerTo(question.method, result)) question.resolve(result)
    else question.reject(malformedAnswer(question.method))
  }

  /** The client works on a question: it gets more time. */
  extend(session: LiveSession, token: RequestId): void {
    const question = this.#open.get(token)
    if (question?.session === session) question.extend()
  }
}

interface Question {
  readonly session: LiveSession
  readonly method: InputRequest['method']
  readonly resolve: (answer: InputResponse) => void
  readonly reject: (error: Error) => void
  readonly extend: () => void
}

const LEVELS: readonly LoggingLevel[] = [
  'debug',
  'info',
  'notice',
  'warning',
  'error',
  'critical',
  'alert',
  'emergency',
]

interface ContextParts {
  readonly call: OpenCall
  readonly questions: Questions
  readonly sessions: Sessions
}

/** The context of one request of a session. */
export class SessionContext implements RequestContext {
  readonly requestId: RequestId
  readonly principal: Principal
  readonly signal: AbortSignal
  readonly meta: Params
  readonly progress: RequestContext['progress']
  readonly continuation: Continuation | undefined = undefined
  readonly #http: SessionRequest
  readonly #parts: ContextParts

  constructor(request: RpcRequest, http: SessionRequest, parts: ContextParts) {
    this.requestId = request.id
    this.principal = http.principal
    this.signal = parts.call.signalOf(request.id)
    this.meta = metaOf(request)
    this.#http = http
    this.#parts = parts
    const { progressToken: token } = this.meta
    this.progress = isRequestId(token) ? (piece) => this.#progress(token, piece) : undefined
  }

  get client(): ClientInfo {
    const { clientInfo, capabilities, protocolVersion } = this.#parts.call.session.record.handshake
    const { name } = clientInfo
    return { name: typeof name === 'string' ? name : undefined, capabilities, protocolVersion }
  }

  get session(): SessionHandle {
    return new Subscriptions(this.#parts.call.session, this.#parts.sessions)
  }

  get namespace(): string | undefined {
    return this.#parts.call.session.record.scope
  }

  get address(): string | undefined {
    return this.#http.address
  }

  get bodyBytes(): number | undefined {
    const length = this.#http.headers.get('content-length')
    return length === null ? undefined : Number(length)
  }

  get trace(): TraceCarrier | undefined {
    return readTrace(this.meta, this.#http.headers)
  }

  hasRoom(): boolean {
    return this.#http.hasRoom?.() ?? true
  }

  async log(level: LoggingLevel, text: string): Promise<void> {
    const { call } = this.#parts
    const { level: least } = call.session.record
    if (isLevel(least) && LEVELS.indexOf(level) < LEVELS.indexOf(least)) return
    await this.#send('notifications/message', { level, data: text })
  }

  async ask(
    requests: Readonly<Record<string, InputRequest>>,
  ): Promise<Readonly<Record<string, InputResponse>>> {
    const { call, questions } = this.#parts
    const failed = new AbortController()
    const signal = AbortSignal.any([this.signal, failed.signal])
    try {
      const answers = await Promise.all(
        Object.entries(requests).map(
          async ([key, request]) => [key, await questions.ask(call, request, signal)] as const,
        ),
      )
      return Object.fromEntries(answers)
    } catch (error) {
      failed.abort(error)
      throw error
    }
  }

  closeStream(): void {
    this.#parts.call.closeStream()
  }

  #progress(progressToken: RequestId, piece: ProgressPiece): Promise<void> {
    return this.#send('notifications/progress', { progressToken, ...piece })
  }

  async #send(method: string, params: Params): Promise<void> {
    const { call } = this.#parts
    if (!call.isOpen(this.requestId)) return
    await call.send({ jsonrpc: '2.0', method, params })
    await call.writable()
  }
}

const MAX_FOLLOWED = 256

/** Resources that the client of a session subscribed to. */
class Subscriptions implements SessionHandle {
  readonly #session: LiveSession
  readonly #sessions: Sessions

  constructor(session: LiveSession, sessions: Sessions) {
    this.#session = session
    this.#sessions = sessions
  }

  async subscribe(uri: string): Promise<boolean> {
    let hasRoom = true
    await this.#sessions.update(this.#session, (record) => {
      const { followed } = record
      if (followed.includes(uri)) return record
      hasRoom = followed.length < MAX_FOLLOWED
      return hasRoom ? { ...record, followed: [...followed, uri] } : record
    })
    return hasRoom
  }

  async unsubscribe(uri: string): Promise<void> {
    if (!this.#session.record.followed.includes(uri)) return
    await this.#sessions.update(this.#session, (record) => {
      return { ...record, followed: record.followed.filter((each) => each !== uri) }
    })
  }
}

function isAnswerTo(method: InputRequest['method'], result: unknown): result is InputResponse {
  switch (method) {
    case 'elicitation/create':
      return isSpecType.ElicitResult(result)
    case 'sampling/createMessage':
      return (
        isSpecType.CreateMessageResult(result) || isSpecType.CreateMessageResultWithTools(result)
      )
    case 'roots/list':
      return isSpecType.ListRootsResult(result)
  }
}

/** Shorter than what a validator says about each form that an answer could have. */
function malformedAnswer(method: InputRequest['method']): SdkError {
  const text =
    method === 'elicitation/create'
      ? 'The answer to an elicitation is malformed: "action" must be accept, decline or cancel, and "content" an object of plain values.'
      : `The answer to "${method}" is malformed: it must have the form that the specification requires.`
  return new SdkError(SdkErrorCode.InvalidResult, text)
}

/** @throws ProtocolError -32602 */
export function parseLevel(value: unknown): LoggingLevel {
  if (isLevel(value)) return value
  const text = `"level" must be one of ${LEVELS.join(', ')}`
  throw new ProtocolError(RPC_ERROR.invalidParams, text)
}

function isLevel(value: unknown): value is LoggingLevel {
  return LEVELS.some((level) => level === value)
}
