import { randomUUID } from 'node:crypto'
import { isRecord } from '@x/internal'
import { INTERNAL_ERROR } from '../json-rpc.ts'
import type {
  JsonRpcMessage,
  JsonRpcResponse,
  RequestId,
  InputRequest,
  InputRequired,
} from '../json-rpc.ts'
import { TransportError } from '../transport-error.ts'

/** The server has executed a part of the call, and the call cannot be continued. */
export function inputError(message: string, code: number = INTERNAL_ERROR): TransportError {
  return new TransportError('REJECTED', message, { serverError: { code, message } })
}

/**
 * Calls the client's handlers for inputs that servers require in results. The client gets ordinary requests
 * with ids of the transport; its responses end here and are not posted.
 */
export class ClientInputs {
  readonly #deliver: (message: JsonRpcMessage) => void
  readonly #waiting = new Map<RequestId, (reply: JsonRpcResponse) => void>()

  constructor(deliver: (message: JsonRpcMessage) => void) {
    this.#deliver = deliver
  }

  /**
   * Collects all answers, by the keys of the requests, in parallel. The first failure cancels the others.
   *
   * @throws TransportError `REJECTED` if an input is not available
   */
  async gather(
    requests: Readonly<Record<string, InputRequest>>,
    capabilities: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<Record<string, unknown>> {
    for (const { method } of Object.values(requests)) {
      const capability = INPUT_CAPABILITIES[method]
      if (capability !== undefined && capabilities[capability] !== undefined) continue
      throw inputError(`The server requires an input (${method}) that this client does not support`)
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

  /** Takes the client's response. Returns false if it answers no input request. */
  take(reply: JsonRpcResponse): boolean {
    const { id } = reply
    const settle = id === undefined || id === null ? undefined : this.#waiting.get(id)
    settle?.(reply)
    return settle !== undefined
  }

  #ask(request: InputRequest, signal: AbortSignal): Promise<unknown> {
    if (signal.aborted) return Promise.reject(gaveUp())
    // Unlike a number, the id is not used by another server or protocol object: the user may answer much later.
    const id = `input-${randomUUID()}`
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#waiting.delete(id)
        const params = { requestId: id, reason: 'The request that needs this input has ended' }
        this.#deliver({ jsonrpc: '2.0', method: 'notifications/cancelled', params })
        reject(gaveUp())
      }
      this.#waiting.set(id, (reply) => {
        this.#waiting.delete(id)
        signal.removeEventListener('abort', onAbort)
        if ('result' in reply) resolve(reply.result)
        else reject(inputError(reply.error.message, reply.error.code))
      })
      signal.addEventListener('abort', onAbort, { once: true })
      this.#deliver(toClientRequest(request, id))
    })
  }
}

function gaveUp(): TransportError {
  return inputError('The request was abandoned')
}

/** @returns undefined if there are neither requests nor a state, or they are malformed. */
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

/** Client capability that an input request requires. */
export const INPUT_CAPABILITIES: Readonly<Record<string, string>> = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
}

/** Returns whether a server may answer a method with `input_required`. */
export function mayRequireInput(method: string): boolean {
  return method === 'tools/call' || method === 'prompts/get' || method === 'resources/read'
}

/** Converts an input request for a client of SDK v1, whose schema requires an id for URL elicitation. */
export function toClientRequest(
  request: InputRequest,
  id: RequestId,
): { jsonrpc: '2.0'; id: RequestId; method: string; params: Record<string, unknown> } {
  const params = { ...request.params }
  if (request.method === 'elicitation/create' && params['mode'] === 'url') {
    params['elicitationId'] ??= randomUUID()
  }
  return { jsonrpc: '2.0', id, method: request.method, params }
}
