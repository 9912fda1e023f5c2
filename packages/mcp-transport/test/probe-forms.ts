import type { CannedAnswer } from '@x/mcp-testing'
import { discoverResult } from '@x/mcp-testing'

/**
 * Meaning of an answer to the probe (`server/discover`). `retry`: the client probes again, and fails if the
 * answer stays the same.
 */
type ProbeVerdict = 'modern' | 'legacy' | 'error' | 'retry'

/** One way in which a server, or a proxy before it, answers `server/discover`. */
export interface ProbeForm {
  /** For `startScriptedServer`, or as an action of a proxy rule. */
  readonly answer: CannedAnswer | 'hang' | 'reset-before'
  readonly verdict: ProbeVerdict
  /**
   * The specification defines it for modern servers, but many legacy servers send it. If `initialize` fails
   * too, the client reports this error.
   */
  readonly firstErrorWins?: true | undefined
  /** Number of probes until the era counts as known. @default 1 */
  readonly probes?: number | undefined
  /** The answer has this session id, which the client must not use. */
  readonly orphanSessionId?: string | undefined
}

/** Names of {@link probeForms}: the status, then the difference to others of that status. */
export type ProbeFormName =
  | `200-discover${'' | '-sse' | '-both-eras' | '-serverinfo-in-body' | '-legacy-only'}`
  | '200-discover-unknown-only'
  | `400-32022-${'modern' | 'legacy' | 'unknown' | 'no-list'}`
  | `400-${'32020' | '32021' | '32602' | '32600-orphan-session' | '32000-not-initialized'}`
  | `400-${'32000-session-id' | 'positive-code' | 'empty' | 'text' | 'json'}`
  | `404-${'32001' | '32601' | 'html'}`
  | `200-${'32601' | '32601-sse' | '32602-orphan-session' | 'empty' | 'html' | 'json' | 'null'}`
  | `200-${'other-id' | 'other-result' | 'sse-empty'}`
  | `40${'1' | '1-32601' | '3' | '3-32022' | '5' | '6' | '8'}`
  | `4${'15' | '22-json' | '25' | '29'}`
  | `50${'0' | '0-32603' | '2-html' | '3-retry-after'}`
  | `20${'2' | '4'}`
  | 'no-answer'
  | 'reset'

type Body = NonNullable<CannedAnswer['body']>
type Headers = CannedAnswer['headers']

const form =
  (verdict: ProbeVerdict) =>
  (status: number, body?: Body, headers?: Headers): ProbeForm => ({
    answer: {
      status,
      ...(headers !== undefined && { headers }),
      ...(body !== undefined && { body }),
    },
    verdict,
  })
const modern = form('modern')
const legacy = form('legacy')
const failure = form('error')
const retry = form('retry')

const html = { 'content-type': 'text/html' }
const text = { 'content-type': 'text/plain' }
const stream = { 'content-type': 'text/event-stream' }
const orphanSessionId = 'orphan-session-of-the-probe'
const orphan = { 'mcp-session-id': orphanSessionId }
const soon = { ...text, 'retry-after': '0' }
const page = '<html><body><h1>It works</h1></body></html>'

type BodyFor = Exclude<Body, string>

const result =
  (value: Readonly<Record<string, unknown>>): BodyFor =>
  (id) =>
    JSON.stringify({ jsonrpc: '2.0', id, result: value })

const error =
  (code: number, message: string, data?: unknown): BodyFor =>
  (id) =>
    JSON.stringify({ jsonrpc: '2.0', id, error: { code, message, data } })

const event =
  (body: BodyFor): BodyFor =>
  (id) =>
    `event: message\ndata: ${body(id)}\n\n`

const discover = (...supportedVersions: readonly string[]): BodyFor =>
  result({ resultType: 'complete', ...discoverResult, supportedVersions })

const unsupported = (...supported: readonly string[]): BodyFor =>
  error(-32022, 'Unsupported protocol version', { supported, requested: '2026-07-28' })

const noSession = error(-32000, 'Invalid or missing session ID')
const notFound = error(-32601, 'Method not found')
const invalid = error(-32602, 'Invalid request parameters')
const { _meta: _unused, ...withoutMeta } = discoverResult
const draftServer = { ...withoutMeta, serverInfo: { name: 'draft-server', version: '1.0.0' } }
const sampling = { requiredCapabilities: { sampling: {} } }

/**
 * Answers to the probe, as a table of cases. The verdicts are those of a client that prefers the modern
 * era and may fall back (2026-07-28, basic/versioning and basic/transports/streamable-http, "Backward
 * Compatibility").
 */
export const probeForms: Readonly<Record<ProbeFormName, ProbeForm>> = {
  '200-discover': modern(200, discover('2026-07-28')),
  '200-discover-sse': modern(200, event(discover('2026-07-28')), stream),
  '200-discover-both-eras': modern(200, discover('2025-11-25', '2026-07-28', '2099-01-01')),
  // Older drafts have it in the body, and no `resultType`.
  '200-discover-serverinfo-in-body': modern(200, result(draftServer)),
  '200-discover-legacy-only': legacy(200, discover('2025-11-25', '2025-06-18')),
  '200-discover-unknown-only': legacy(200, discover('2099-01-01')),
  '400-32022-modern': retry(400, unsupported('2026-07-28')),
  '400-32022-legacy': legacy(400, unsupported('2025-11-25', '2025-06-18')),
  '400-32022-unknown': failure(400, unsupported('2099-01-01')),
  '400-32022-no-list': legacy(400, error(-32022, 'Unsupported protocol version')),
  '400-32020': { ...legacy(400, error(-32020, 'Header mismatch')), firstErrorWins: true },
  '400-32021': {
    ...legacy(400, error(-32021, 'Missing capability', sampling)),
    firstErrorWins: true,
  },
  '404-32001': legacy(404, error(-32001, 'Session not found')),
  '404-32601': legacy(404, notFound),
  '200-32601': legacy(200, notFound),
  '200-32601-sse': legacy(200, event(notFound), stream),
  '400-32602': legacy(400, invalid),
  '200-32602-orphan-session': {
    ...legacy(200, event(invalid), { ...stream, ...orphan }),
    orphanSessionId,
  },
  '400-32600-orphan-session': {
    ...legacy(400, error(-32600, 'Not initialized'), orphan),
    orphanSessionId,
  },
  '400-32000-not-initialized': legacy(400, error(-32000, 'Bad Request: Server not initialized')),
  '400-32000-session-id': legacy(400, () => noSession(null)),
  '400-positive-code': legacy(400, error(32600, 'Session terminated')),
  '401': failure(401, undefined, { 'www-authenticate': 'Bearer' }),
  // The body comes from a proxy, and says nothing about the era of the server. Clients must ignore it.
  '401-32601': failure(401, notFound, { 'www-authenticate': 'Bearer error="invalid_token"' }),
  '403': failure(403, page, html),
  '403-32022': failure(403, unsupported('2025-11-25')),
  '500': { ...legacy(500), probes: 3 },
  '500-32603': { ...legacy(500, error(-32603, 'Internal error')), probes: 3 },
  '502-html': retry(502, page, html),
  '503-retry-after': retry(503, 'Starting', soon),
  '408': retry(408, 'Too late', soon),
  '425': retry(425, 'Too early', soon),
  '429': retry(429, 'Slow down', soon),
  '400-empty': legacy(400),
  '400-text': legacy(400, 'Bad Request', text),
  '400-json': legacy(400, '{"error":"bad request"}'),
  '404-html': legacy(404, page, html),
  '405': legacy(405, undefined, { allow: 'GET' }),
  '406': legacy(406, 'Not Acceptable', text),
  '415': legacy(415),
  '422-json': legacy(422, '{"detail":[]}'),
  '200-empty': legacy(200),
  '200-html': legacy(200, page, html),
  '200-json': legacy(200, '{"ok":true}'),
  '200-null': legacy(200, 'null', { 'content-type': 'application/json' }),
  '200-other-id': legacy(200, () => discover('2026-07-28')('id-of-another-request')),
  '200-other-result': legacy(200, result({})),
  '200-sse-empty': legacy(200, undefined, stream),
  '202': legacy(202),
  '204': legacy(204),
  'no-answer': { answer: 'hang', verdict: 'legacy' },
  reset: { answer: 'reset-before', verdict: 'error' },
}
