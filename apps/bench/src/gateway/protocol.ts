import { isObject } from '../client/checks.ts'

export type Era = 'modern' | 'legacy'

/** Of the MCP endpoint, with everybody. */
export const PATH = '/mcp'
export const TOKEN: string = `bench-${'7f3a9c'.repeat(6)}`

/** What everybody's tools are called. */
export const TOOL_PREFIX = 'bench_echo_'
/** The gateway's own, which does not end before it is told to. */
export const WAIT_TOOL = 'bench_wait'
/** Likewise, with a time limit. */
export const BRIEF_TOOL = 'bench_brief'
export const BRIEF_MS = 250
/** How long the gateway waits for the client of a stream that was lost, in a session. */
export const GRACE_MS = 250

/** As long as a short question of a user. */
export const MESSAGE = 'Which of my orders were shipped this week, and when do they arrive?'

/** What an echo answers. */
export function echoOf(message: string): string {
  return `You said: ${message}`
}

export function toolName(index: number): string {
  return `${TOOL_PREFIX}${index}`
}

/** `count` names of tools. */
export function toolNames(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => toolName(index))
}

interface Message {
  readonly method: string
  readonly id?: number | undefined
  readonly params?: Readonly<Record<string, unknown>> | undefined
}

const VERSIONS: Readonly<Record<Era, string>> = { modern: '2026-07-28', legacy: '2025-11-25' }

export function callOf(id: number, name: string): Message {
  return { method: 'tools/call', id, params: { name, arguments: { message: MESSAGE } } }
}

export const INITIALIZE: Message = {
  method: 'initialize',
  id: 0,
  params: {
    protocolVersion: VERSIONS.legacy,
    capabilities: { elicitation: {} }, // FastMCP waits for some
    clientInfo: { name: 'bench', version: '1.0.0' },
  },
}

/** A whole POST, as bytes of ASCII. */
export function postOf(era: Era, message: Message, session?: string): string {
  const { method, id, params } = message
  const body = JSON.stringify({
    jsonrpc: '2.0',
    ...(id !== undefined && { id }),
    method,
    params: era === 'modern' ? { ...params, _meta: ENVELOPE } : params,
  })
  const lines = [...headOf('POST', era, session), `Content-Length: ${body.length}`]
  lines.push('Content-Type: application/json')
  if (era === 'modern') {
    lines.push(`Mcp-Method: ${method}`)
    if (typeof params?.['name'] === 'string') lines.push(`Mcp-Name: ${params['name']}`)
  }
  return `${lines.join('\r\n')}\r\n\r\n${body}`
}

/** Asks for the stream of a session. */
export function listenOf(session: string): string {
  return `${headOf('GET', 'legacy', session).join('\r\n')}\r\n\r\n`
}

/** Asks for what needs no session, and no token. */
export function getOf(path: string): string {
  return `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`
}

/** Ends a session. */
export function deleteOf(session: string): string {
  return `${headOf('DELETE', 'legacy', session).join('\r\n')}\r\n\r\n`
}

const ENVELOPE = {
  'io.modelcontextprotocol/protocolVersion': VERSIONS.modern,
  'io.modelcontextprotocol/clientInfo': { name: 'bench', version: '1.0.0' },
  'io.modelcontextprotocol/clientCapabilities': {},
}

function headOf(method: string, era: Era, session: string | undefined): string[] {
  const lines = [
    `${method} ${PATH} HTTP/1.1`,
    'Host: 127.0.0.1',
    // Everybody is sent it; the gateway looks at it where it has auth.
    `Authorization: Bearer ${TOKEN}`,
    method === 'GET' ? 'Accept: text/event-stream' : 'Accept: application/json, text/event-stream',
  ]
  if (session !== undefined) lines.push(`Mcp-Session-Id: ${session}`)
  if (era === 'modern' || session !== undefined)
    lines.push(`MCP-Protocol-Version: ${VERSIONS[era]}`)
  return lines
}

/** The message in a body of JSON, or the last one of an event stream. @throws Error where there is none */
export function messageFrom(body: string): unknown {
  if (body.startsWith('{')) return JSON.parse(body)
  const at = body.lastIndexOf('data: {')
  if (at === -1) throw new Error(`No message: ${body.slice(0, 200)}`)
  const end = body.indexOf('\n', at)
  return JSON.parse(body.slice(at + 6, end === -1 ? undefined : end))
}

/** @throws Error unless this is the result of the call with this id */
export function checkEcho(message: unknown, id: number, expected: string = echoOf(MESSAGE)): void {
  if (isObject(message) && message['id'] === id && isObject(message['result'])) {
    const { content, isError } = message['result']
    const [first]: unknown[] = Array.isArray(content) ? content : []
    if (isError !== true && isObject(first) && first['text'] === expected) return
  }
  throw new Error(`A wrong answer to call ${id}: ${JSON.stringify(message).slice(0, 300)}`)
}
