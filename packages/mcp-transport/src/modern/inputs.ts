import { randomUUID } from 'node:crypto'
import { isRecord } from '@x/internal'
import { INTERNAL_ERROR } from '../json-rpc.ts'
import type { MessageHandlers } from '../calls/call.ts'
import type { InputRequest, InputRequired } from '../json-rpc.ts'
import { TransportError } from '../transport-error.ts'

/** The server has executed a part of the call, and the call cannot be continued. */
export function inputError(message: string, code: number = INTERNAL_ERROR): TransportError {
  return new TransportError('REJECTED', message, { serverError: { code, message } })
}

export interface AskingOptions extends Pick<MessageHandlers, 'onServerRequest'> {
  /** Those of the client. */
  readonly capabilities: Readonly<Record<string, unknown>>
  readonly signal: AbortSignal
}

/**
 * Has the client answer inputs that a server requires in a result, all at the same time. Returns the answers by the keys
 * of the requests; they are not posted here. The first failure cancels the others.
 *
 * @throws TransportError `REJECTED` if an input is not available
 */
export async function answersTo(
  requests: Readonly<Record<string, InputRequest>>,
  { capabilities, signal, onServerRequest }: AskingOptions,
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
      const answer = await ask(request, either, onServerRequest)
      return [key, answer] as const
    })
    return Object.fromEntries(await Promise.all(entries))
  } finally {
    stop.abort(GAVE_UP)
  }
}

const GAVE_UP = 'The request that needs this input has ended'

const gaveUp = (): TransportError => inputError('The request was abandoned')

function ask(
  request: InputRequest,
  signal: AbortSignal,
  onServerRequest: MessageHandlers['onServerRequest'],
): Promise<unknown> {
  if (signal.aborted) return Promise.reject(gaveUp())
  // Another signal than that of the call, which aborts with an error that a user should not see.
  const asked = new AbortController()
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      asked.abort(GAVE_UP)
      reject(gaveUp())
    }
    signal.addEventListener('abort', onAbort, { once: true })
    onServerRequest({
      ...toClientRequest(request),
      signal: asked.signal,
      respond: async (answer) => {
        signal.removeEventListener('abort', onAbort)
        if ('result' in answer) resolve(answer.result)
        else reject(inputError(answer.error.message, answer.error.code))
      },
    })
  })
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
export function toClientRequest({ method, params }: InputRequest): InputRequest {
  if (method !== 'elicitation/create' || params?.['mode'] !== 'url')
    return { method, params: { ...params } }
  return { method, params: { ...params, elicitationId: params['elicitationId'] ?? randomUUID() } }
}
