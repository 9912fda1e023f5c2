/** An answer of a server to any request. A function creates the body for the id of the request. */
interface OddAnswer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | ((id: unknown) => string)
}

const events = { 'content-type': 'text/event-stream' }
const html = { 'content-type': 'text/html' }
const json = (value: object) => (id: unknown) => JSON.stringify({ jsonrpc: '2.0', id, ...value })

/** Answers with which a server may refuse a lost session or era, and that no table of `mcp-testing` names. */
export const oddAnswers: Readonly<Record<string, OddAnswer>> = {
  '200-empty-stream': { status: 200, headers: events },
  '200-primed-stream': { status: 200, headers: events, body: 'id: 1\ndata:\n\n' },
  '200-html': { status: 200, headers: html, body: '<html>Hi</html>' },
  '200-other-error': { status: 200, body: json({ error: { code: -32603, message: 'No' } }) },
  '200-without-result': { status: 200, body: json({}) },
  '204': { status: 204 },
  '400-empty': { status: 400 },
  '403': { status: 403 },
  '404-text': { status: 404, body: '404 page not found' },
  '405': { status: 405, headers: { allow: 'GET' } },
  '406': { status: 406 },
  '421': { status: 421, body: 'Misdirected Request' },
  '500': { status: 500 },
  '502-html': { status: 502, headers: html, body: '<html>502</html>' },
}
