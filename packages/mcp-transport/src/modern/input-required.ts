import { isRecord } from '@x/internal'
import type { RequestId } from '../json-rpc.ts'

/** A request that a server embeds in a result: it needs an answer before it can go on. */
export interface InputRequest {
  readonly method: string
  readonly params?: Readonly<Record<string, unknown>> | undefined
}

/** A result that is not one yet (2026-07-28, basic/patterns/mrtr). */
export interface InputRequired {
  readonly inputRequests?: Readonly<Record<string, InputRequest>> | undefined
  /** Opaque; goes back byte for byte, if and only if it was given. */
  readonly requestState?: string | undefined
}

/** The answers to an `InputRequired`, by the keys of its requests. */
export interface InputAnswers {
  readonly inputResponses?: Readonly<Record<string, unknown>> | undefined
  readonly requestState?: string | undefined
}

/** @returns undefined if it has neither requests nor state, or they are malformed. */
export function inputRequiredFrom(
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
export function clientRequestFrom(
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
