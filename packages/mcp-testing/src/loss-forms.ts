import type { CannedAnswer } from './canned-answer.ts'
import type { RpcId } from './rpc-message.ts'
import { rpcError } from './rpc-message.ts'

/** Meaning of an answer to a request with a session id: the session is lost, or not, or unclear. */
export type LossVerdict = 'lost' | 'ambiguous' | 'not-lost'

/** An answer of a real server to a POST in a session that the server does not know. */
export interface LossForm extends CannedAnswer {
  readonly verdict: LossVerdict
}

/** Names of {@link lossForms}: the status, then the difference to others of that status. */
export type LossFormName =
  | `404-${'32001' | '32600' | '32000' | '32601' | 'empty' | 'html' | 'text'}`
  | `404-own-id${'' | '-only' | '-tool'}`
  | `400-${'invalid' | 'no-valid' | 'not-an-initialize' | 'header-required' | 'not-initialized'}`
  | `400-${'unknown' | 'own-id' | 'text' | 'no-active' | 'already-initialized' | 'already-exists'}`
  | `400-${'32600' | '32601' | '32602'}`
  | `401-${'text' | 'challenge'}`
  | `200-${'sse-not-json-rpc' | 'positive-32600' | '32600' | '32000' | '32001'}`
  | '409'
  | '409-session'
  | '410'
  | '429'
  | '202'
  | '500-wrapped'
  | '503'

const form =
  (verdict: LossVerdict) =>
  (status: number, body?: CannedAnswer['body'], headers?: CannedAnswer['headers']): LossForm => ({
    status,
    ...(headers !== undefined && { headers }),
    ...(body !== undefined && { body }),
    verdict,
  })
const lost = form('lost')
const ambiguous = form('ambiguous')
const notLost = form('not-lost')

/** An error with the id of the request: a tool may have been executed before it. */
const answer =
  (code: number, message: string) =>
  (id: RpcId): string =>
    rpcError(code, message, id)
const text = { 'content-type': 'text/plain' }
const html = { 'content-type': 'text/html' }
const events = { 'content-type': 'text/event-stream' }
const challenge = { ...text, 'www-authenticate': 'Bearer error="invalid_token"' }
const notFoundFor = answer(-32001, 'Session not found')
const notFound = '<html><body><h1>404 Not Found</h1></body></html>'
const wrapped = { error: 'Upstream said 400: Bad Request: No valid session ID provided' }

/**
 * Answers to a POST in an unknown session, as real servers and gateways give them, and answers that look
 * alike and mean something else. For `lossForm` of a legacy server, for a fault, or as a table of cases.
 */
export const lossForms: Readonly<Record<LossFormName, LossForm>> = {
  '404-32001': lost(404, rpcError(-32001, 'Session not found')),
  '404-32600': lost(404, rpcError(-32600, 'Session terminated')),
  '404-32000': lost(404, rpcError(-32000, 'Session expired')),
  '404-empty': lost(404),
  '404-html': lost(404, notFound, html),
  '404-text': lost(404, 'Invalid session ID', text),
  '404-32601': ambiguous(404, answer(-32601, 'Not Found')),
  '404-own-id': lost(404, notFoundFor),
  '404-own-id-only': lost(404, (id) => JSON.stringify({ jsonrpc: '2.0', id })),
  '404-own-id-tool': ambiguous(404, answer(-32000, 'cart session not found: call open_cart first')),
  '410': lost(410),
  '400-invalid': lost(400, rpcError(-32000, 'Invalid or missing session ID')),
  '400-no-valid': lost(400, rpcError(-32000, 'Bad Request: No valid session ID provided')),
  '400-not-an-initialize': lost(
    400,
    rpcError(-32000, 'No valid session ID, and not an initialize request'),
  ),
  '400-header-required': lost(
    400,
    rpcError(-32000, 'Bad Request: Mcp-Session-Id header is required'),
  ),
  '400-not-initialized': lost(400, rpcError(-32000, 'Bad Request: Server not initialized')),
  '400-unknown': lost(400, rpcError(-32600, 'Unknown session id')),
  '400-own-id': ambiguous(400, answer(-32000, 'browser session not found: call open_page first')),
  '400-text': lost(400, 'Invalid session ID', text),
  '400-no-active': lost(400, 'No active session', text),
  '401-text': lost(401, 'Session not found', text),
  '401-challenge': notLost(401, 'Session not found', challenge),
  '500-wrapped': ambiguous(500, JSON.stringify(wrapped)),
  '200-sse-not-json-rpc': ambiguous(200, 'data: {"error":"Session not found"}\n\n', events),
  '200-positive-32600': ambiguous(200, answer(32600, 'Session terminated')),
  '200-32600': ambiguous(200, answer(-32600, 'Session not found')),
  '200-32000': ambiguous(200, answer(-32000, 'No valid session ID provided')),
  '200-32001': ambiguous(200, notFoundFor),
  '409-session': ambiguous(409, 'Session expired', text),
  // To a notification it means success; to a request it is not an answer.
  '202': notLost(202),
  '400-already-initialized': notLost(
    400,
    rpcError(-32600, 'Invalid Request: Server already initialized'),
  ),
  '400-already-exists': notLost(400, 'Session already exists', text),
  '409': notLost(409, 'Conflict', text),
  '429': notLost(429, 'Slow down', { ...text, 'retry-after': '1' }),
  '503': notLost(503, 'Overloaded', { ...text, 'retry-after': '1' }),
  '400-32600': notLost(400, answer(-32600, 'Invalid Request')),
  '400-32601': notLost(400, answer(-32601, 'Method not found')),
  '400-32602': notLost(400, answer(-32602, 'Invalid params')),
}

const failure = (
  status: number,
  body: CannedAnswer['body'],
  headers: CannedAnswer['headers'] = text,
): CannedAnswer => ({ status, headers, body })

/** Answers of tools that were executed and then failed. Their texts look like those of a lost session. */
export const toolFailures: Readonly<Record<string, CannedAnswer>> = {
  checkout: failure(500, 'Checkout session expired after the card was charged'),
  database: failure(500, 'database session expired while committing order 17'),
  gateway: failure(502, 'unknown session affinity cookie'),
  browser: lossForms['400-own-id'],
  game: failure(422, 'game session is invalid'),
  // The id of the request stands where only a reader of the whole body finds it.
  stream: failure(404, (id) => `event: message\ndata: ${notFoundFor(id)}\n\n`, events),
  batch: { status: 404, body: (id) => `[${notFoundFor(id)}]` },
  wrapped: { status: 410, body: (id) => JSON.stringify({ detail: notFoundFor(id) }) },
  long: { status: 404, body: answer(-32001, 'x'.repeat(70_000)) },
  encoded: failure(404, 'not readable', { ...text, 'content-encoding': 'br' }),
}
