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
import { abortReason, isRecord } from '@x/internal'
import { GatewayError, textForCaller } from '../errors.ts'
import type { Caller } from '../internal/principal.ts'

import {
  invalidParams,
  isRequestId,
  type Params,
  type RpcRequest,
  type RpcResponse,
} from './json-rpc.ts'
import {
  MAX_FOLLOWED,
  QuestionTimeout,
  RequestContext,
  type Answers,
  type ClientInfo,
  type Questions,
} from './request-context.ts'
import { questionForSession } from './revisions.ts'
import type { CallStream } from './session-calls.ts'
import type { LiveSession, SessionParts, Sessions } from './sessions.ts'

/** One HTTP request of a client, whose credential was checked. */
export interface SessionRequest {
  readonly method: string
  readonly headers: Pick<Headers, 'get'>
  readonly body: unknown
  readonly caller: Caller
}

/** Time in which a person has to answer in a session. Progress of the client extends it. */
export const QUESTION_TIMEOUT_MS = 600_000

type QuestionParts = Pick<SessionParts, 'lease' | 'questionTimeoutMs' | 'clock'>

/** Questions of this process that clients have not answered. */
export class OpenQuestions {
  readonly #parts: QuestionParts
  readonly #open = new Map<RequestId, Question>()
  #asked = 0

  constructor(parts: QuestionParts) {
    this.#parts = parts
  }

  /** Asks a client on the stream of a call. If one question fails, the others are withdrawn. */
  async askAll(call: CallStream, questions: Questions, signal: AbortSignal): Promise<Answers> {
    const failed = new AbortController()
    const either = AbortSignal.any([signal, failed.signal])
    try {
      const answers = Object.entries(questions).map(
        async ([key, question]) => [key, await this.#ask(call, question, either)] as const,
      )
      return Object.fromEntries(await Promise.all(answers))
    } catch (error) {
      failed.abort(error)
      throw error
    }
  }

  #ask(call: CallStream, request: InputRequest, signal: AbortSignal): Promise<InputResponse> {
    const { method, params } = questionForSession(request)
    const { clock, lease, questionTimeoutMs: timeoutMs } = this.#parts
    const id = `${lease.id}.${++this.#asked}`
    const { session } = call
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        this.#open.delete(id)
        stopTimer()
        signal.removeEventListener('abort', onAbort)
      }
      const withdraw = (reason: unknown): void => {
        settle()
        const known = reason instanceof Error ? reason.message : 'The request has ended'
        const text = GatewayError.is(reason) ? textForCaller(reason) : known
        const cancelled = { requestId: id, reason: text }
        const withdrawal = { method: 'notifications/cancelled', params: cancelled }
        void call.send({ jsonrpc: '2.0', ...withdrawal }).catch(() => undefined)
        reject(reason)
      }
      const onAbort = (): void => withdraw(signal.reason)
      const startTimer = (): (() => void) =>
        clock.after(timeoutMs, () => withdraw(new QuestionTimeout(timeoutMs)))
      if (signal.aborted) return reject(abortReason(signal))
      let stopTimer = startTimer()
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
  readonly call: CallStream
  readonly questions: OpenQuestions
  readonly sessions: Sessions
}

export class SessionContext extends RequestContext {
  readonly client: ClientInfo
  readonly signal: AbortSignal
  readonly progress: RequestContext['progress']
  readonly continuation = undefined
  readonly #parts: ContextParts

  constructor(request: RpcRequest, { caller, headers }: SessionRequest, parts: ContextParts) {
    const { session } = parts.call
    const { handshake, scope } = session.record
    const { _meta: given } = request.params ?? {}
    super(isRecord(given) ? given : {}, { ...caller, scope }, headers)
    this.client = handshake
    this.signal = parts.call.signal
    this.#parts = parts
    const { progressToken } = this.meta
    if (!isRequestId(progressToken)) return
    this.progress = (piece) => this.#send('notifications/progress', { progressToken, ...piece })
  }

  async log(level: LoggingLevel, text: string): Promise<void> {
    const { call } = this.#parts
    const { level: least } = call.session.record
    if (!isAtLeast(level, least)) return
    await this.#send('notifications/message', { level, data: text })
  }

  async ask(questions: Questions): Promise<Answers> {
    const { call, questions: open } = this.#parts
    return open.askAll(call, questions, this.signal)
  }

  override async subscribe(uri: string): Promise<boolean> {
    const { call, sessions } = this.#parts
    await sessions.update(call.session, (record) => {
      const { followed } = record
      const isAdded = !followed.includes(uri) && followed.length < MAX_FOLLOWED
      return isAdded ? { ...record, followed: [...followed, uri] } : record
    })
    return call.session.isEnded || call.session.record.followed.includes(uri)
  }

  override async unsubscribe(uri: string): Promise<void> {
    const { call, sessions } = this.#parts
    if (!call.session.record.followed.includes(uri)) return
    await sessions.update(call.session, (record) => {
      return { ...record, followed: record.followed.filter((each) => each !== uri) }
    })
  }

  async #send(method: string, params: Params): Promise<void> {
    const { call } = this.#parts
    if (!call.isOpen) return
    await call.sendProgress({ jsonrpc: '2.0', method, params })
    await call.writable()
  }
}

/** Returns an error for a malformed answer: the validator describes each form that the answer could have, over pages. */
function malformedAnswer(method: InputRequest['method']): SdkError {
  const text =
    method === 'elicitation/create'
      ? 'The answer to an elicitation is malformed: "action" must be accept, decline or cancel, and "content" an object of plain values.'
      : `The answer to "${method}" is malformed: it must have the form that the specification requires.`
  return new SdkError(SdkErrorCode.InvalidResult, text)
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

/** @throws ProtocolError -32602 */
export function parseLevel(value: unknown): LoggingLevel {
  if (isLevel(value)) return value
  throw invalidParams(`"level" must be one of ${LEVELS.join(', ')}`)
}

function isLevel(value: unknown): value is LoggingLevel {
  return LEVELS.some((level) => level === value)
}

/** @param least level that the client set. Without a valid one, every message is sent */
export function isAtLeast(level: LoggingLevel, least: unknown): boolean {
  return !isLevel(least) || LEVELS.indexOf(level) >= LEVELS.indexOf(least)
}
