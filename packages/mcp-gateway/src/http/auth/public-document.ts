/** A document that anybody may read, pages of other origins included: no credential is sent along with it. */
export function publicDocument(request: Request, document: object): Response {
  const headers = {
    'access-control-allow-origin': '*',
    'access-control-allow-methods': 'GET',
    'access-control-allow-headers': '*',
    'cache-control': 'public, max-age=300',
  }
  if (request.method === 'OPTIONS') return new Response(null, { status: 204, headers })
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    return new Response(null, { status: 405, headers: { ...headers, allow: 'GET' } })
  }
  return Response.json(document, { headers })
}
