/** The revisions that a call is made in: 2026-07-28 without sessions, 2025-11-25 with them. */
export type Era = 'modern' | 'legacy'
export const ERAS: readonly Era[] = ['modern', 'legacy']

/** Path of the MCP endpoint of every server. */
export const PATH = '/mcp'
export const TOKEN: string = `bench-${'7f3a9c'.repeat(6)}`

/** A tool of every server but Mastra. It answers in a later turn of the event loop, as most tools do. */
export const LATER_TOOL = 'bench_later'
/** A tool of every server. Its calls never become tasks. */
export const CALL_TOOL = 'bench_echo_0'
/** A tool of the gateway that asks a question. */
export const ASK_TOOL = 'bench_ask'
/** A tool of the gateway that runs until it is cancelled. */
export const WAIT_TOOL = 'bench_wait'
/** The same with a time limit. */
export const BRIEF_TOOL = 'bench_brief'
export const BRIEF_MS = 250

/** As long as a short question of a user. */
export const MESSAGE = 'Which of my orders were shipped this week, and when do they arrive?'

/** Answer of an echo tool. */
export function echoOf(message: string): string {
  return `You said: ${message}`
}

export function toolName(index: number): string {
  return `bench_echo_${index}`
}

export function toolNames(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => toolName(index))
}

export interface Message {
  readonly method: string
  readonly id?: number | undefined
  readonly params?: Readonly<Record<string, unknown>> | undefined
}

const VERSIONS: Readonly<Record<Era, string>> = { modern: '2026-07-28', legacy: '2025-11-25' }
const CLIENT_INFO = { name: 'bench', version: '1.0.0' }

export function callOf(id: number, name: string): Message {
  return { method: 'tools/call', id, params: { name, arguments: { message: MESSAGE } } }
}

export const INITIALIZE: Message = {
  method: 'initialize',
  id: 0,
  params: {
    protocolVersion: VERSIONS.legacy,
    capabilities: { elicitation: {} }, // FastMCP waits for a capability
    clientInfo: CLIENT_INFO,
  },
}

/** The text of a whole POST, in ASCII. */
export function postOf(era: Era, message: Message, session?: string): string {
  const { method, id, params } = message
  const meta = params?.['_meta'] as Readonly<Record<string, unknown>> | undefined
  const body = JSON.stringify({
    jsonrpc: '2.0',
    ...(id !== undefined && { id }),
    method,
    params: era === 'modern' ? { ...params, _meta: { ...ENVELOPE, ...meta } } : params,
  })
  const headers = [`Content-Length: ${body.length}`, 'Content-Type: application/json']
  if (era === 'modern') {
    headers.push(`Mcp-Method: ${method}`)
    const name = params?.['name'] ?? params?.['taskId']
    if (typeof name === 'string') headers.push(`Mcp-Name: ${name}`)
  }
  return `${headOf('POST', session, era)}${headers.join('\r\n')}\r\n\r\n${body}`
}

const ENVELOPE = {
  'io.modelcontextprotocol/protocolVersion': VERSIONS.modern,
  'io.modelcontextprotocol/clientInfo': CLIENT_INFO,
  'io.modelcontextprotocol/clientCapabilities': {},
}

/** Opens the stream of a session, or ends the session. */
export function sessionRequest(method: 'GET' | 'DELETE', session: string): string {
  return `${headOf(method, session, 'legacy')}\r\n`
}

function headOf(method: string, session: string | undefined, era: Era): string {
  const accept = method === 'GET' ? 'text/event-stream' : 'application/json, text/event-stream'
  const lines = [`${method} ${PATH} HTTP/1.1`, 'Host: 127.0.0.1', `Accept: ${accept}`]
  lines.push(`Authorization: Bearer ${TOKEN}`) // only the gateway checks it
  if (session !== undefined) lines.push(`Mcp-Session-Id: ${session}`)
  if (era === 'modern' || session !== undefined) {
    lines.push(`MCP-Protocol-Version: ${VERSIONS[era]}`)
  }
  return `${lines.join('\r\n')}\r\n`
}

export interface Result {
  /** A task has this field, `status` and `result`. */
  readonly taskId?: unknown
  readonly status?: string
  readonly result?: Result
  readonly content?: readonly { readonly text?: string }[]
  readonly tools?: readonly unknown[]
  readonly isError?: boolean
}

/** The JSON-RPC message in a body: the JSON, or the last event. @throws Error if there is none. */
export function messageFrom(body: string): { readonly id?: unknown; readonly result?: Result } {
  if (body.startsWith('{')) return JSON.parse(body)
  const at = body.lastIndexOf('data: {')
  if (at === -1) throw new Error(`The body has no message: ${body.slice(0, 200)}`)
  const end = body.indexOf('\n', at)
  return JSON.parse(body.slice(at + 6, end === -1 ? undefined : end))
}

/** @throws Error unless the body is the answer to the call with this id. */
export function checkAnswer(body: string, id: number, expected: string = echoOf(MESSAGE)): void {
  const { id: answered, result } = messageFrom(body)
  const isRight = answered === id && result?.isError !== true
  if (isRight && result?.content?.[0]?.text === expected) return
  throw new Error(`Wrong answer to call ${id}: ${body.slice(0, 300)}`)
}

/** Microseconds of a clock that all processes of this machine share. */
export function nowUs(): number {
  return Number(process.hrtime.bigint() / 1000n)
}
