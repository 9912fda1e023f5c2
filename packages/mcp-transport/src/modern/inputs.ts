import { randomUUID } from 'node:crypto'
import { isRecord } from '@x/internal'
import { INTERNAL_ERROR } from '../json-rpc.ts'
import type {
  JsonRpcRequest,
  InputAnswers,
  JsonRpcMessage,
  JsonRpcResponse,
  RequestId,
  InputRequest,
  InputRequired,
} from '../json-rpc.ts'

/**
 * Key in `params._meta` by which a request tells *this transport*, and never the server, what to do with
 * inputs that the server requires: hand them up as the result instead of asking the client's handlers
 * (`{ surface: true }`), or go on with answers that were given earlier, in any process (`{ answers }`).
 */
export const INPUT_META_KEY = 'mcp-transport/input'

export interface InputInstructions {
  readonly surface?: boolean | undefined
  readonly answers?: InputAnswers | undefined
}

const NO_INSTRUCTIONS: InputInstructions = {}

/** The request without the instructions, and the instructions. */
export function takeInputInstructions(request: JsonRpcRequest): {
  readonly request: JsonRpcRequest
  readonly instructions: InputInstructions
} {
  const meta = request.params?.['_meta']
  if (!isRecord(meta) || !Object.hasOwn(meta, INPUT_META_KEY)) {
    return { request, instructions: NO_INSTRUCTIONS }
  }
  const { [INPUT_META_KEY]: given, ...rest } = meta
  const { _meta, ...params } = request.params ?? {}
  return {
    request: {
      ...request,
      params: Object.keys(rest).length === 0 ? params : { ...params, _meta: rest },
    },
    instructions: parseInstructions(given),
  }
}

function parseInstructions(value: unknown): InputInstructions {
  if (!isRecord(value)) return {}
  const { surface, answers } = value
  if (!isRecord(answers)) return { surface: surface === true }
  const { inputResponses, requestState } = answers
  return {
    surface: surface === true,
    answers: {
      ...(isRecord(inputResponses) ? { inputResponses } : {}),
      ...(typeof requestState === 'string' ? { requestState } : {}),
    },
  }
}

/** Why an input could not be had: the original request fails with this. */
export class InputError extends Error {
  override readonly name = 'InputError'
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

/**
 * Asks the client's own handlers for what servers embed in results: to the client these are ordinary
 * requests, with ids of ours; its replies are taken here instead of being posted.
 */
export class ClientInputs {
  readonly #deliver: (message: JsonRpcMessage) => void
  readonly #waiting = new Map<RequestId, (reply: JsonRpcResponse) => void>()
  #asked = 0

  constructor(deliver: (message: JsonRpcMessage) => void) {
    this.#deliver = deliver
  }

  /**
   * All answers, by the keys of the requests; they are asked for in parallel, and the first failure
   * stops the rest.
   *
   * @throws InputError
   */
  async gather(
    requests: Readonly<Record<string, InputRequest>>,
    capabilities: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<Record<string, unknown>> {
    for (const { method } of Object.values(requests)) {
      const capability = capabilityFor(method)
      if (capability !== undefined && capabilities[capability] !== undefined) continue
      throw new InputError(
        INTERNAL_ERROR,
        `The server requires an input (${method}) that this client does not offer`,
      )
    }
    const stop = new AbortController()
    const either = AbortSignal.any([signal, stop.signal])
    try {
      const entries = Object.entries(requests).map(async ([key, request]) => {
        const answer = await this.#ask(request, either)
        return [key, answer] as const
      })
      return Object.fromEntries(await Promise.all(entries))
    } finally {
      stop.abort()
    }
  }

  /** Takes the client's reply. Returns false if it is not one to an input. */
  take(reply: JsonRpcResponse): boolean {
    const { id } = reply
    const settle = id === undefined || id === null ? undefined : this.#waiting.get(id)
    settle?.(reply)
    return settle !== undefined
  }

  #ask(request: InputRequest, signal: AbortSignal): Promise<unknown> {
    if (signal.aborted) return Promise.reject(gaveUp())
    const id = `input-${++this.#asked}`
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#waiting.delete(id)
        const params = { requestId: id, reason: 'The request that needed this has ended' }
        this.#deliver({ jsonrpc: '2.0', method: 'notifications/cancelled', params })
        reject(gaveUp())
      }
      this.#waiting.set(id, (reply) => {
        this.#waiting.delete(id)
        signal.removeEventListener('abort', onAbort)
        if ('result' in reply) resolve(reply.result)
        else reject(new InputError(reply.error.code, reply.error.message))
      })
      signal.addEventListener('abort', onAbort, { once: true })
      this.#deliver(toClientRequest(request, id, randomUUID))
    })
  }
}

function gaveUp(): InputError {
  return new InputError(INTERNAL_ERROR, 'The request was given up')
}

/** @returns undefined if it has neither requests nor state, or they are malformed. */
export function parseInputRequired(
  result: Readonly<Record<string, unknown>>,
): InputRequired | undefined {
  const { inputRequests, requestState } = result
  if (inputRequests === undefined && requestState === undefined) return undefined
  if (requestState !== undefined && typeof requestState !== 'string') return undefined
  if (inputRequests !== undefined && !isInputRequests(inputRequests)) return undefined
  return { inputRequests, requestState }
}

function isInputRequests(value: unknown): value is Readonly<Record<string, InputRequest>> {
  return (
    isRecord(value) &&
    Object.values(value).every(
      (request) =>
        isRecord(request) &&
        typeof request['method'] === 'string' &&
        (request['params'] === undefined || isRecord(request['params'])),
    )
  )
}

/** The capability that a client must have declared to be asked for an input. */
export function capabilityFor(method: string): string | undefined {
  return INPUT_CAPABILITIES[method]
}

const INPUT_CAPABILITIES: Readonly<Record<string, string>> = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
}

/** Methods that may be answered with `input_required`. */
export function mayRequireInput(method: string): boolean {
  return method === 'tools/call' || method === 'prompts/get' || method === 'resources/read'
}

/** An embedded request as a client of SDK v1 must see it: its schema wants an id for URL elicitation. */
export function toClientRequest(
  request: InputRequest,
  id: RequestId,
  newElicitationId: () => string,
): { jsonrpc: '2.0'; id: RequestId; method: string; params: Record<string, unknown> } {
  const params = { ...request.params }
  if (request.method === 'elicitation/create' && params['mode'] === 'url') {
    params['elicitationId'] ??= newElicitationId()
  }
  return { jsonrpc: '2.0', id, method: request.method, params }
}
