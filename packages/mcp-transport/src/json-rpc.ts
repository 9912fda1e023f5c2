import { isRecord } from '@x/internal'
import { parseMessage, repairMessage, repairResult } from '@x/internal/mcp-answers'

/** JSON-RPC ids as MCP allows them. */
export type RequestId = string | number

/** A request that a server embeds in a result. The server needs an answer to continue. */
export interface InputRequest {
  readonly method: string
  readonly params?: Readonly<Record<string, unknown>> | undefined
}

export interface JsonRpcRequest extends InputRequest {
  readonly jsonrpc: '2.0'
  readonly id: RequestId
}

export interface JsonRpcNotification extends InputRequest {
  readonly jsonrpc: '2.0'
}

interface JsonRpcResult {
  readonly jsonrpc: '2.0'
  readonly id: RequestId
  readonly result: Readonly<Record<string, unknown>>
}

export interface JsonRpcError {
  readonly jsonrpc: '2.0'
  /** Absent or null if the server could not read the id of the request. */
  readonly id?: RequestId | null | undefined
  readonly error: { readonly code: number; readonly message: string; readonly data?: unknown }
}

export type JsonRpcResponse = JsonRpcResult | JsonRpcError
/** A response without its id. */
export type Answer = Pick<JsonRpcResult, 'result'> | Pick<JsonRpcError, 'error'>
export type JsonRpcMessage = JsonRpcRequest | JsonRpcNotification | JsonRpcResponse

/** Returns undefined for a text that is not JSON. Skips a byte order mark (RFC 8259, section 8.1). */
export function parseJson(text: string): unknown {
  try {
    return parseMessage(text.startsWith('\uFEFF') ? text.slice(1) : text)
  } catch {
    return undefined
  }
}

/**
 * Returns a value as a JSON-RPC 2.0 message; undefined if it is not one. Repairs what servers are known to send, and
 * checks only the shape: the client checks all fields with its schemas, and a second complete check would cost more than
 * the parsing.
 */
export function messageFrom(value: unknown): JsonRpcMessage | undefined {
  repairMessage(value)
  return isMessage(value) ? value : undefined
}

function isMessage(value: unknown): value is JsonRpcMessage {
  if (!isRecord(value) || value['jsonrpc'] !== '2.0') return false
  const { id, method, params, result, error } = value
  const hasId = typeof id === 'string' || typeof id === 'number'
  if (typeof method === 'string') {
    return (hasId || id === undefined) && (params === undefined || isRecord(params))
  }
  if (!isErrorObject(error)) return hasId && isRecord(result)
  return (hasId || id === undefined || id === null) && !isRecord(result)
}

export function isRequest(message: JsonRpcMessage): message is JsonRpcRequest {
  return 'method' in message && 'id' in message
}

export function isResponse(message: JsonRpcMessage): message is JsonRpcResponse {
  return !('method' in message)
}

/**
 * Returns whether a message on the response to a request answers that request. Ids are compared as text,
 * because some servers send `"1"` for `1`. An error without an id answers the request of the response: the
 * server could not read the request.
 */
export function isAnswerTo(id: RequestId, { id: given }: JsonRpcResponse): boolean {
  return given === undefined || given === null || String(given) === String(id)
}

/** Repairs the result of a request. The client's schemas see it only then. */
export function repairedAnswer<Response extends JsonRpcResponse>(
  { method }: Pick<JsonRpcRequest, 'method'>,
  answer: Response,
  options?: Parameters<typeof repairResult>[2],
): Response {
  if ('result' in answer) repairResult(method, answer.result, options)
  return answer
}

function isErrorObject(value: unknown): value is JsonRpcError['error'] {
  return (
    isRecord(value) && typeof value['code'] === 'number' && typeof value['message'] === 'string'
  )
}

/** A result that asks the client for input (2026-07-28, basic/patterns/mrtr). */
export interface InputRequired {
  readonly inputRequests?: Readonly<Record<string, InputRequest>> | undefined
  /** Opaque. Sent back unchanged, and only if the server sent it. */
  readonly requestState?: string | undefined
}

/** Answers to an `InputRequired`, by the keys of its requests. */
export interface InputAnswers extends Pick<InputRequired, 'requestState'> {
  readonly inputResponses?: Readonly<Record<string, unknown>> | undefined
}

/** How a call treats inputs that a server of 2026-07-28 requires for a call. */
export interface InputInstructions {
  /** Required inputs are returned as the result. @default the handlers of the client answer them */
  readonly surface?: boolean | undefined
  /** Continues the call with answers that were collected earlier, in any process. */
  readonly answers?: InputAnswers | undefined
}

/** Asks for the progress of a request. */
export function withProgressToken(
  params: InputRequest['params'],
  progressToken: number,
): Readonly<Record<string, unknown>> {
  const meta = params?.['_meta']
  return { ...params, _meta: { ...(isRecord(meta) && meta), progressToken } }
}

const VERSION_META_KEY = 'io.modelcontextprotocol/protocolVersion'

/**
 * Returns the stateless revision that a request names (2026-07-28, basic). Undefined for a request of a client
 * that expects sessions.
 */
export function versionOf({ params }: JsonRpcRequest): string | undefined {
  const meta = params?.['_meta']
  const version = isRecord(meta) ? meta[VERSION_META_KEY] : undefined
  return typeof version === 'string' ? version : undefined
}

/** Error codes of answers that the transport creates without asking the server. */
export const METHOD_NOT_FOUND = -32601
export const INVALID_PARAMS = -32602
export const INTERNAL_ERROR = -32603

export function localError(code: number, message: string): Answer {
  return { error: { code, message } }
}

const LISTS = [
  ['tools', 'toolsListChanged'],
  ['prompts', 'promptsListChanged'],
  ['resources', 'resourcesListChanged'],
] as const

/** Lists whose changes a server announces, or is asked to announce: those that are `true`. */
export type ListChanges = { readonly [List in (typeof LISTS)[number][1]]?: unknown }

/** Returns the list changes that a server advertises. */
export function advertisedChanges(capabilities: Readonly<Record<string, unknown>>): ListChanges {
  const changed = LISTS.filter(([capability]) => {
    const advertised = capabilities[capability]
    return isRecord(advertised) && advertised['listChanged'] === true
  })
  return Object.fromEntries(changed.map(([, change]) => [change, true]))
}

/** Returns one notification for each list. It stands for all changes that were missed without a stream. */
export function listChangesFor(changes: ListChanges): readonly JsonRpcNotification[] {
  const changed = LISTS.filter(([, change]) => changes[change] === true)
  return changed.map(([list]) => ({
    jsonrpc: '2.0',
    method: `notifications/${list}/list_changed`,
  }))
}
