import type { CannedAnswer } from './canned-answer.ts'
import type { RpcId } from './rpc-message.ts'
import { rpcError } from './rpc-message.ts'

/** What an answer says about the session, when the request carried an id. */
export type LossVerdict = 'lost' | 'ambiguous' | 'not-lost'

/** One way in which servers of the field answer a POST that names a session they do not know. */
export interface LossForm extends CannedAnswer {
  readonly verdict: LossVerdict
}

/** Names of {@link lossForms}: the status, then what tells it from others of that status. */
export type LossFormName =
  | '404-32001'
  | '404-32600'
  | '404-32000'
  | '404-empty'
  | '404-html'
  | '404-text'
  | '404-32601'
  | '404-own-id'
  | '410'
  | '400-invalid'
  | '400-no-valid'
  | '400-not-an-initialize'
  | '400-header-required'
  | '400-not-initialized'
  | '400-unknown'
  | '400-own-id'
  | '400-text'
  | '400-no-active'
  | '401-text'
  | '401-challenge'
  | '500-wrapped'
  | '200-sse-not-json-rpc'
  | '200-positive-32600'
  | '200-32600'
  | '200-32000'
  | '200-32001'
  | '409-session'
  | '202'
  | '400-already-initialized'
  | '400-already-exists'
  | '409'
  | '429'
  | '503'
  | '400-32600'
  | '400-32601'
  | '400-32602'

const error =
  (code: number, message: string) =>
  (id: RpcId): string =>
    rpcError(code, message, id)
const text = { 'content-type': 'text/plain' }

/**
 * Answers to a POST in an unknown session, as seen from servers and gateways of the field; and their
 * neighbours, which look alike and mean something else. For `lossForm` of a stateful server, as an
 * action of a proxy rule, or as a table of cases.
 */
export const lossForms: Readonly<Record<LossFormName, LossForm>> = {
  '404-32001': { status: 404, body: rpcError(-32001, 'Session not found'), verdict: 'lost' },
  '404-32600': { status: 404, body: rpcError(-32600, 'Session terminated'), verdict: 'lost' },
  '404-32000': { status: 404, body: rpcError(-32000, 'Session expired'), verdict: 'lost' },
  '404-empty': { status: 404, verdict: 'lost' },
  '404-html': {
    status: 404,
    headers: { 'content-type': 'text/html' },
    body: '<html><body><h1>404 Not Found</h1></body></html>',
    verdict: 'lost',
  },
  '404-text': { status: 404, headers: text, body: 'Invalid session ID', verdict: 'lost' },
  '404-32601': { status: 404, body: error(-32601, 'Not Found'), verdict: 'ambiguous' },
  '410': { status: 410, verdict: 'lost' },
  '400-invalid': {
    status: 400,
    body: rpcError(-32000, 'Invalid or missing session ID'),
    verdict: 'lost',
  },
  '400-no-valid': {
    status: 400,
    body: rpcError(-32000, 'Bad Request: No valid session ID provided'),
    verdict: 'lost',
  },
  '400-not-an-initialize': {
    status: 400,
    body: rpcError(-32000, 'No valid session ID, and not an initialize request'),
    verdict: 'lost',
  },
  '400-header-required': {
    status: 400,
    body: rpcError(-32000, 'Bad Request: Mcp-Session-Id header is required'),
    verdict: 'lost',
  },
  '400-not-initialized': {
    status: 400,
    body: rpcError(-32000, 'Bad Request: Server not initialized'),
    verdict: 'lost',
  },
  '400-unknown': { status: 400, body: rpcError(-32600, 'Unknown session id'), verdict: 'lost' },
  // An error with the id of the request: a tool may have been executed before it.
  '404-own-id': { status: 404, body: error(-32001, 'Session not found'), verdict: 'ambiguous' },
  '400-own-id': {
    status: 400,
    body: error(-32000, 'browser session not found: call open_page first'),
    verdict: 'ambiguous',
  },
  '400-text': { status: 400, headers: text, body: 'Invalid session ID', verdict: 'lost' },
  '400-no-active': { status: 400, headers: text, body: 'No active session', verdict: 'lost' },
  '401-text': { status: 401, headers: text, body: 'Session not found', verdict: 'lost' },
  '401-challenge': {
    status: 401,
    headers: { ...text, 'www-authenticate': 'Bearer error="invalid_token"' },
    body: 'Session not found',
    verdict: 'not-lost',
  },
  '500-wrapped': {
    status: 500,
    body: JSON.stringify({ error: 'Upstream said 400: Bad Request: No valid session ID provided' }),
    verdict: 'ambiguous',
  },
  '200-sse-not-json-rpc': {
    status: 200,
    headers: { 'content-type': 'text/event-stream' },
    body: 'data: {"error":"Session not found"}\n\n',
    verdict: 'ambiguous',
  },
  '200-positive-32600': {
    status: 200,
    body: error(32600, 'Session terminated'),
    verdict: 'ambiguous',
  },
  '200-32600': { status: 200, body: error(-32600, 'Session not found'), verdict: 'ambiguous' },
  '200-32000': {
    status: 200,
    body: error(-32000, 'No valid session ID provided'),
    verdict: 'ambiguous',
  },
  '200-32001': { status: 200, body: error(-32001, 'Session not found'), verdict: 'ambiguous' },
  '409-session': { status: 409, headers: text, body: 'Session expired', verdict: 'ambiguous' },
  // Sent to a notification it says nothing; to a request it is no answer.
  '202': { status: 202, verdict: 'not-lost' },
  '400-already-initialized': {
    status: 400,
    body: rpcError(-32600, 'Invalid Request: Server already initialized'),
    verdict: 'not-lost',
  },
  '400-already-exists': {
    status: 400,
    headers: text,
    body: 'Session already exists',
    verdict: 'not-lost',
  },
  '409': { status: 409, headers: text, body: 'Conflict', verdict: 'not-lost' },
  '429': {
    status: 429,
    headers: { ...text, 'retry-after': '1' },
    body: 'Slow down',
    verdict: 'not-lost',
  },
  '503': {
    status: 503,
    headers: { ...text, 'retry-after': '1' },
    body: 'Overloaded',
    verdict: 'not-lost',
  },
  '400-32600': { status: 400, body: error(-32600, 'Invalid Request'), verdict: 'not-lost' },
  '400-32601': { status: 400, body: error(-32601, 'Method not found'), verdict: 'not-lost' },
  '400-32602': { status: 400, body: error(-32602, 'Invalid params'), verdict: 'not-lost' },
}

/** Answers of tools that have done something and then failed. Their texts look like those of a lost session. */
export const toolFailures: Readonly<Record<string, CannedAnswer>> = {
  checkout: {
    status: 500,
    headers: text,
    body: 'Checkout session expired after the card was charged',
  },
  database: {
    status: 500,
    headers: text,
    body: 'database session expired while committing order 17',
  },
  gateway: { status: 502, headers: text, body: 'unknown session affinity cookie' },
  browser: lossForms['400-own-id'],
  game: { status: 422, headers: text, body: 'game session is invalid' },
}
