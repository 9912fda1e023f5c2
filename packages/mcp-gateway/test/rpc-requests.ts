/** HTTP requests of a client, with a session unless they are `modern`. */
export const URL_OF_TESTS = 'http://localhost/mcp'

/** Parameters of `initialize`. */
export const HANDSHAKE = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'test', version: '1.0.0' },
} as const

/** Messages that open a session. */
export const OPENING: readonly [object, object] = [
  { jsonrpc: '2.0', id: 0, method: 'initialize', params: HANDSHAKE },
  { jsonrpc: '2.0', method: 'notifications/initialized' },
]

/** Headers of every POST. */
export const JSON_HEADERS = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
} as const

export function post(
  message: unknown,
  headers: Readonly<Record<string, string>> = {},
  signal?: AbortSignal,
): Request {
  return new Request(URL_OF_TESTS, {
    method: 'POST',
    headers: { host: 'localhost', ...JSON_HEADERS, ...headers },
    body: typeof message === 'string' ? message : JSON.stringify(message),
    ...(signal && { signal }),
  })
}

/** What each request of a client of 2026-07-28 says of it, in `_meta`. */
export const MODERN_META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1.0.0' },
  'io.modelcontextprotocol/clientCapabilities': {},
} as const

/** The message and the headers of a client of 2026-07-28. @param params `_meta` is added to that of the client */
export function modernParts(
  method: string,
  { _meta, ...params }: Readonly<Record<string, unknown>> = {},
  id = 1,
): { readonly message: object; readonly headers: Readonly<Record<string, string>> } {
  const meta = { ...MODERN_META, ...(_meta as object | undefined) }
  const name = params['uri'] ?? params['name'] ?? params['taskId']
  return {
    message: { jsonrpc: '2.0', id, method, params: { ...params, _meta: meta } },
    headers: {
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...(typeof name === 'string' && { 'mcp-name': name }),
    },
  }
}

/** A request of a client of 2026-07-28. */
export function modern(
  method: string,
  params?: Readonly<Record<string, unknown>>,
  headers: Readonly<Record<string, string>> = {},
): Request {
  const { message, headers: own } = modernParts(method, params)
  return post(message, { ...own, ...headers })
}

export function initialize(headers: Readonly<Record<string, string>> = {}): Request {
  return post(OPENING[0], headers)
}

/** Headers of requests in a session. */
export function inSession(
  id: string,
  headers: Readonly<Record<string, string>> = {},
): Record<string, string> {
  return { 'mcp-session-id': id, 'mcp-protocol-version': '2025-11-25', ...headers }
}

export function toolCall(id: number, name: string, message: string): object {
  const params = { name, arguments: { message }, _meta: { progressToken: id } }
  return { jsonrpc: '2.0', id, method: 'tools/call', params }
}

export function get(headers: Readonly<Record<string, string>>, signal?: AbortSignal): Request {
  return new Request(URL_OF_TESTS, {
    headers: { host: 'localhost', accept: 'text/event-stream', ...headers },
    ...(signal && { signal }),
  })
}

/** Opens a session. @param handshake changes of `HANDSHAKE`. @returns its id */
export async function openSession(
  fetch: (request: Request) => Promise<Response>,
  headers: Readonly<Record<string, string>> = {},
  handshake: object = {},
): Promise<string> {
  const params = { ...HANDSHAKE, ...handshake }
  const response = await fetch(post({ ...OPENING[0], params }, headers))
  await response.text()
  const id = response.headers.get('mcp-session-id')
  if (id === null) throw new Error(`No session: ${response.status}`)
  await fetch(post(OPENING[1], inSession(id, headers)))
  return id
}

export interface ReadEvent {
  readonly id: string | undefined
  readonly data: string
}

/** Yields the events of a response. Leaving the loop closes the stream. */
export async function* eventsOf(response: Response): AsyncGenerator<ReadEvent> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true })
    const blocks = text.split('\n\n')
    text = blocks.pop() ?? ''
    for (const block of blocks) {
      const lines = block.split('\n')
      const field = (name: string): string | undefined =>
        lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2)
      if (field('id') !== undefined || field('data') !== undefined) {
        yield { id: field('id'), data: field('data') ?? '' }
      }
    }
  }
}
