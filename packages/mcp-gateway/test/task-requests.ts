import { modern } from './rpc-requests.ts'

export type Json = Readonly<Record<string, unknown>>
export type Fetch = (request: Request) => Promise<Response>

export const EXTENSION = 'io.modelcontextprotocol/tasks'

export interface Message {
  readonly status: number
  readonly result?: Json
  readonly error?: Json
}

/** A request of a client of 2026-07-28 that knows tasks and shows forms. */
export function request(
  method: string,
  params: Json,
  over: { extensions?: Json; token?: string } = {},
): Request {
  const { extensions = { [EXTENSION]: {} }, token } = over
  const { _meta: own, ...others } = params
  const capabilities = { elicitation: {}, extensions }
  const meta = { 'io.modelcontextprotocol/clientCapabilities': capabilities, ...(own as object) }
  return modern(
    method,
    { ...others, _meta: meta },
    token === undefined ? {} : { authorization: `Bearer ${token}` },
  )
}

export async function send(fetch: Fetch, message: Request): Promise<Message> {
  const response = await fetch(message)
  return { status: response.status, ...((await response.json()) as object) }
}

export const call = (fetch: Fetch, name: string, over = {}): Promise<Message> =>
  send(fetch, request('tools/call', { name, arguments: { message: 'Hi' } }, over))

export const get = (fetch: Fetch, taskId: unknown, over = {}): Promise<Message> =>
  send(fetch, request('tasks/get', { taskId }, over))

export const update = (fetch: Fetch, taskId: unknown, inputResponses: Json): Promise<Message> =>
  send(fetch, request('tasks/update', { taskId, inputResponses }))

export const cancel = (fetch: Fetch, taskId: unknown): Promise<Message> =>
  send(fetch, request('tasks/cancel', { taskId }))

/** The answer to a form. */
export const accepted = (content: Json): Json => ({ action: 'accept', content })

export const KEY = 'a-key-of-the-client-that-is-long-enough-to-be-unknown-to-others'

/** The metadata of a result that was given before. */
export const REPLAYED = { 'io.github.x-mcp/idempotency': { replayed: true } }

/** A call with an idempotency key. */
export function keyed(name: string, message = 'Hi', over = {}): Request {
  const meta = { 'io.github.x-mcp/idempotency-key': KEY }
  return request('tools/call', { name, arguments: { message }, _meta: meta }, over)
}
