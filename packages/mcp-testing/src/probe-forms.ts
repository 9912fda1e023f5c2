import type { CannedAnswer } from './canned-answer.ts'
import type { RpcId } from './rpc-message.ts'
import { discoverResult } from './scripted-server.ts'

/**
 * What an answer to the probe (`server/discover`) says about the server. `retry`: nothing yet; asked
 * again it may answer otherwise, and if it does not, an error.
 */
export type ProbeVerdict = 'modern' | 'legacy' | 'error' | 'retry'

/** One way in which a server, or something before it, answers `server/discover`. */
export interface ProbeForm {
  /** For `startScriptedServer`, or as an action of a proxy rule. */
  readonly answer: CannedAnswer | 'hang' | 'reset-before'
  readonly verdict: ProbeVerdict
  /**
   * The specification calls it modern evidence, many a legacy server sends it: if `initialize` fails
   * too, this is the error to report.
   */
  readonly firstErrorWins?: true | undefined
  /** A session id came with it, which nobody asked for: never used, at most deleted. */
  readonly orphanSessionId?: string | undefined
}

/** Names of {@link probeForms}: the status, then what tells it from others of that status. */
export type ProbeFormName =
  | '200-discover'
  | '200-discover-sse'
  | '200-discover-both-eras'
  | '200-discover-serverinfo-in-body'
  | '200-discover-legacy-only'
  | '200-discover-unknown-only'
  | '400-32022-modern'
  | '400-32022-legacy'
  | '400-32022-unknown'
  | '400-32022-no-list'
  | '400-32020'
  | '400-32021'
  | '404-32001'
  | '404-32601'
  | '200-32601'
  | '200-32601-sse'
  | '400-32602'
  | '200-32602-orphan-session'
  | '400-32600-orphan-session'
  | '400-32000-not-initialized'
  | '400-32000-session-id'
  | '400-positive-code'
  | '401'
  | '401-32601'
  | '403'
  | '403-32022'
  | '500'
  | '500-32603'
  | '502-html'
  | '503-retry-after'
  | '408'
  | '425'
  | '429'
  | '400-empty'
  | '400-text'
  | '400-json'
  | '404-html'
  | '405'
  | '406'
  | '415'
  | '422-json'
  | '200-empty'
  | '200-html'
  | '200-json'
  | '200-null'
  | '200-other-id'
  | '200-other-result'
  | '200-sse-empty'
  | '202'
  | '204'
  | 'no-answer'
  | 'reset'

const html = { 'content-type': 'text/html' }
const text = { 'content-type': 'text/plain' }
const stream = { 'content-type': 'text/event-stream' }
const orphanSessionId = 'orphan-session-of-the-probe'
const orphan = { 'mcp-session-id': orphanSessionId }
const soon = { ...text, 'retry-after': '0' }
const page = '<html><body><h1>It works</h1></body></html>'

type Body = (id: RpcId) => string

const result =
  (value: Readonly<Record<string, unknown>>): Body =>
  (id) =>
    JSON.stringify({ jsonrpc: '2.0', id, result: value })

const error =
  (code: number, message: string, data?: unknown): Body =>
  (id) =>
    JSON.stringify({ jsonrpc: '2.0', id, error: { code, message, data } })

const event =
  (body: Body): Body =>
  (id) =>
    `event: message\ndata: ${body(id)}\n\n`

const discover = (supportedVersions: readonly string[]): Body =>
  result({ resultType: 'complete', ...discoverResult, supportedVersions })

const unsupported = (supported?: readonly string[]): Body =>
  error(-32022, 'Unsupported protocol version', supported && { supported, requested: '2026-07-28' })

const { _meta: _unused, ...withoutMeta } = discoverResult

/**
 * Answers to the probe, as a table of cases. The verdicts are those of
 * a client that prefers the modern era and may fall back (2026-07-28, basic/versioning and
 * basic/transports/streamable-http, "Backward Compatibility").
 */
export const probeForms: Readonly<Record<ProbeFormName, ProbeForm>> = {
  '200-discover': { answer: { status: 200, body: discover(['2026-07-28']) }, verdict: 'modern' },
  '200-discover-sse': {
    answer: { status: 200, headers: stream, body: event(discover(['2026-07-28'])) },
    verdict: 'modern',
  },
  '200-discover-both-eras': {
    answer: { status: 200, body: discover(['2025-11-25', '2026-07-28', '2099-01-01']) },
    verdict: 'modern',
  },
  // Older drafts have it in the body, and no `resultType`.
  '200-discover-serverinfo-in-body': {
    answer: {
      status: 200,
      body: result({ ...withoutMeta, serverInfo: { name: 'draft-server', version: '1.0.0' } }),
    },
    verdict: 'modern',
  },
  '200-discover-legacy-only': {
    answer: { status: 200, body: discover(['2025-11-25', '2025-06-18']) },
    verdict: 'legacy',
  },
  '200-discover-unknown-only': {
    answer: { status: 200, body: discover(['2099-01-01']) },
    verdict: 'legacy',
  },
  '400-32022-modern': {
    answer: { status: 400, body: unsupported(['2026-07-28']) },
    verdict: 'retry',
  },
  '400-32022-legacy': {
    answer: { status: 400, body: unsupported(['2025-11-25', '2025-06-18']) },
    verdict: 'legacy',
  },
  '400-32022-unknown': {
    answer: { status: 400, body: unsupported(['2099-01-01']) },
    verdict: 'error',
  },
  '400-32022-no-list': { answer: { status: 400, body: unsupported() }, verdict: 'legacy' },
  '400-32020': {
    answer: { status: 400, body: error(-32020, 'Header mismatch') },
    verdict: 'legacy',
    firstErrorWins: true,
  },
  '400-32021': {
    answer: {
      status: 400,
      body: error(-32021, 'Missing capability', { requiredCapabilities: { sampling: {} } }),
    },
    verdict: 'legacy',
    firstErrorWins: true,
  },
  '404-32001': {
    answer: { status: 404, body: error(-32001, 'Session not found') },
    verdict: 'legacy',
  },
  '404-32601': {
    answer: { status: 404, body: error(-32601, 'Method not found') },
    verdict: 'legacy',
  },
  '200-32601': {
    answer: { status: 200, body: error(-32601, 'Method not found') },
    verdict: 'legacy',
  },
  '200-32601-sse': {
    answer: {
      status: 200,
      headers: stream,
      body: event(error(-32601, 'Method not found')),
    },
    verdict: 'legacy',
  },
  '400-32602': {
    answer: { status: 400, body: error(-32602, 'Invalid request parameters') },
    verdict: 'legacy',
  },
  '200-32602-orphan-session': {
    answer: {
      status: 200,
      headers: { ...stream, ...orphan },
      body: event(error(-32602, 'Invalid request parameters')),
    },
    verdict: 'legacy',
    orphanSessionId,
  },
  '400-32600-orphan-session': {
    answer: { status: 400, headers: orphan, body: error(-32600, 'Not initialized') },
    verdict: 'legacy',
    orphanSessionId,
  },
  '400-32000-not-initialized': {
    answer: { status: 400, body: error(-32000, 'Bad Request: Server not initialized') },
    verdict: 'legacy',
  },
  '400-32000-session-id': {
    answer: { status: 400, body: () => error(-32000, 'Invalid or missing session ID')(null) },
    verdict: 'legacy',
  },
  '400-positive-code': {
    answer: { status: 400, body: error(32600, 'Session terminated') },
    verdict: 'legacy',
  },
  '401': {
    answer: { status: 401, headers: { 'www-authenticate': 'Bearer' } },
    verdict: 'error',
  },
  // The body must not be looked at: it says what a proxy thinks, not which era the server has.
  '401-32601': {
    answer: {
      status: 401,
      headers: { 'www-authenticate': 'Bearer error="invalid_token"' },
      body: error(-32601, 'Method not found'),
    },
    verdict: 'error',
  },
  '403': { answer: { status: 403, headers: html, body: page }, verdict: 'error' },
  '403-32022': { answer: { status: 403, body: unsupported(['2025-11-25']) }, verdict: 'error' },
  '500': { answer: { status: 500 }, verdict: 'retry' },
  '500-32603': { answer: { status: 500, body: error(-32603, 'Internal error') }, verdict: 'retry' },
  '502-html': { answer: { status: 502, headers: html, body: page }, verdict: 'retry' },
  '503-retry-after': {
    answer: { status: 503, headers: soon, body: 'Starting' },
    verdict: 'retry',
  },
  '408': { answer: { status: 408, headers: soon, body: 'Too late' }, verdict: 'retry' },
  '425': { answer: { status: 425, headers: soon, body: 'Too early' }, verdict: 'retry' },
  '429': { answer: { status: 429, headers: soon, body: 'Slow down' }, verdict: 'retry' },
  '400-empty': { answer: { status: 400 }, verdict: 'legacy' },
  '400-text': { answer: { status: 400, headers: text, body: 'Bad Request' }, verdict: 'legacy' },
  '400-json': { answer: { status: 400, body: '{"error":"bad request"}' }, verdict: 'legacy' },
  '404-html': { answer: { status: 404, headers: html, body: page }, verdict: 'legacy' },
  '405': { answer: { status: 405, headers: { allow: 'GET' } }, verdict: 'legacy' },
  '406': { answer: { status: 406, headers: text, body: 'Not Acceptable' }, verdict: 'legacy' },
  '415': { answer: { status: 415 }, verdict: 'legacy' },
  '422-json': { answer: { status: 422, body: '{"detail":[]}' }, verdict: 'legacy' },
  '200-empty': { answer: { status: 200 }, verdict: 'legacy' },
  '200-html': { answer: { status: 200, headers: html, body: page }, verdict: 'legacy' },
  '200-json': { answer: { status: 200, body: '{"ok":true}' }, verdict: 'legacy' },
  '200-null': {
    answer: { status: 200, headers: { 'content-type': 'application/json' }, body: 'null' },
    verdict: 'legacy',
  },
  '200-other-id': {
    answer: { status: 200, body: () => discover(['2026-07-28'])('somebody-elses') },
    verdict: 'legacy',
  },
  '200-other-result': { answer: { status: 200, body: result({}) }, verdict: 'legacy' },
  '200-sse-empty': { answer: { status: 200, headers: stream }, verdict: 'legacy' },
  '202': { answer: { status: 202 }, verdict: 'legacy' },
  '204': { answer: { status: 204 }, verdict: 'legacy' },
  'no-answer': { answer: 'hang', verdict: 'error' },
  reset: { answer: 'reset-before', verdict: 'error' },
}
