import { createHash, randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { startTestServer } from '@x/mcp-testing'

interface SeenRequest {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
  readonly form: URLSearchParams
}

interface Page {
  readonly status: number
  /** A text is sent unchanged, other values as JSON. */
  readonly body?: unknown
  readonly headers?: Record<string, string>
}

/** Behaviour of the server. Can be changed while it runs. */
export interface ProtectedBehaviour {
  /** Scope that a JSON-RPC or HTTP method requires. */
  scopes: Record<string, string>
  scopesSupported: readonly string[] | undefined
  /** Merged into the metadata of the authorization server; undefined removes a field. */
  metadata: Record<string, unknown>
  /** Other responses, by path. A function may return undefined for the usual response. */
  pages: Record<string, Page | ((request: SeenRequest) => Page | undefined)>
  /** The token endpoint answers after this. */
  tokenGate: Promise<unknown> | undefined
  /** More headers of the answers of the MCP endpoint. */
  headers: Record<string, string>
  /** Answers with a stream whose event has this id. */
  eventId: string | undefined
}

/** An MCP server and its authorization server, in one process and on one port. */
export interface ProtectedServer extends AsyncDisposable {
  readonly url: string
  readonly origin: string
  readonly behaviour: ProtectedBehaviour
  readonly seen: SeenRequest[]
  /** Those for the path, `POST /token` or `/token`. */
  of(what: string): SeenRequest[]
  /** Access tokens so far are no longer accepted. */
  revoke(): void
  /** Creates a token pair without a request. */
  issue(scope?: string): { access_token: string; refresh_token: string; token_type: string }
}

export async function startProtectedServer(
  options: Partial<ProtectedBehaviour> = {},
): Promise<ProtectedServer> {
  const behaviour: ProtectedBehaviour = {
    scopes: {},
    scopesSupported: undefined,
    metadata: {},
    pages: {},
    tokenGate: undefined,
    headers: {},
    eventId: undefined,
    ...options,
  }
  const seen: SeenRequest[] = []
  const live = new Map<string, string>()
  const refreshes = new Map<string, string>()
  const codes = new Map<string, { challenge: string; scope: string }>()
  let count = 0

  const issue = (scope = ''): ReturnType<ProtectedServer['issue']> => {
    count += 1
    live.set(`access-${count}`, scope)
    refreshes.set(`refresh-${count}`, scope)
    return {
      access_token: `access-${count}`,
      refresh_token: `refresh-${count}`,
      token_type: 'Bearer',
    }
  }

  const grant = (form: URLSearchParams): { status: number; body: unknown } => {
    const refuse = { status: 400, body: { error: 'invalid_grant' } }
    if (form.get('grant_type') === 'client_credentials') {
      const { access_token, token_type } = issue(form.get('scope') ?? '')
      return { status: 200, body: { access_token, token_type } }
    }
    if (form.get('grant_type') === 'refresh_token') {
      const token = form.get('refresh_token') ?? ''
      const scope = refreshes.get(token)
      if (scope === undefined) return refuse
      refreshes.delete(token)
      return { status: 200, body: issue(scope) }
    }
    const code = codes.get(form.get('code') ?? '')
    codes.delete(form.get('code') ?? '')
    const verifier = createHash('sha256').update(form.get('code_verifier') ?? '')
    if (code?.challenge !== verifier.digest('base64url')) return refuse
    return { status: 200, body: { ...issue(code.scope), scope: code.scope } }
  }

  const mcp = (request: SeenRequest, response: ServerResponse): void => {
    const metadataUrl = `${origin}/.well-known/oauth-protected-resource/mcp`
    const challenge = (rest: string): string =>
      `Bearer resource_metadata="${metadataUrl}"${rest === '' ? '' : `, ${rest}`}`
    const token = (request.headers.authorization ?? '').replace(/^(?:Bearer|DPoP) /, '')
    const scope = live.get(token)
    if (scope === undefined) {
      return send(response, 401, { headers: { 'www-authenticate': challenge('') } })
    }
    const message = request.body === '' ? undefined : JSON.parse(request.body)
    const needed = behaviour.scopes[message?.method ?? request.method]
    if (needed !== undefined && !scope.split(' ').includes(needed)) {
      const rest = `error="insufficient_scope", scope="${needed}"`
      return send(response, 403, { headers: { 'www-authenticate': challenge(rest) } })
    }
    if (request.method !== 'POST') return send(response, request.method === 'GET' ? 405 : 204)
    if (message.id === undefined) return send(response, 202)
    const result =
      message.method === 'initialize'
        ? {
            protocolVersion: '2025-11-25',
            capabilities: { tools: { listChanged: true } },
            serverInfo: { name: 'protected', version: '1' },
          }
        : { content: [{ type: 'text', text: token }], tools: [] }
    const body = { jsonrpc: '2.0', id: message.id, result }
    if (behaviour.eventId !== undefined) {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      return void response.end(`id: ${behaviour.eventId}\ndata: ${JSON.stringify(body)}\n\n`)
    }
    send(response, 200, { body, headers: { 'mcp-session-id': 'session', ...behaviour.headers } })
  }

  const answer = async (request: SeenRequest, response: ServerResponse): Promise<void> => {
    const [path = '', query = ''] = request.path.split('?')
    const asked = new URLSearchParams(query)
    if (path === '/token') await behaviour.tokenGate
    const other = behaviour.pages[path]
    const page = typeof other === 'function' ? other(request) : other
    if (page !== undefined) return send(response, page.status, page)
    switch (path) {
      case '/.well-known/oauth-protected-resource/mcp':
        return send(response, 200, {
          body: {
            resource: `${origin}/mcp`,
            authorization_servers: [origin],
            scopes_supported: behaviour.scopesSupported,
          },
        })
      case '/.well-known/oauth-authorization-server':
        return send(response, 200, {
          body: {
            issuer: origin,
            authorization_endpoint: `${origin}/authorize`,
            token_endpoint: `${origin}/token`,
            registration_endpoint: `${origin}/register`,
            code_challenge_methods_supported: ['S256'],
            response_types_supported: ['code'],
            token_endpoint_auth_methods_supported: ['none', 'client_secret_basic'],
            ...behaviour.metadata,
          },
        })
      case '/register':
        return send(response, 201, {
          body: { ...JSON.parse(request.body), client_id: randomUUID() },
        })
      case '/authorize': {
        const code = randomUUID()
        codes.set(code, {
          challenge: asked.get('code_challenge') ?? '',
          scope: asked.get('scope') ?? '',
        })
        const back = new URL(asked.get('redirect_uri') ?? '')
        back.searchParams.set('code', code)
        back.searchParams.set('state', asked.get('state') ?? '')
        return send(response, 302, { headers: { location: back.href } })
      }
      case '/token': {
        const { status, body } = grant(request.form)
        return send(response, status, { body })
      }
      case '/mcp':
        return mcp(request, response)
      default:
        return send(response, 404)
    }
  }

  const server = await startTestServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString()
      const { method = '', url = '', headers } = request
      const one = { method, path: url, headers, body, form: new URLSearchParams(body) }
      seen.push(one)
      void answer(one, response)
    })
  })
  const { origin } = new URL(server.url)
  return {
    url: server.url,
    origin,
    behaviour,
    seen,
    of: (what) =>
      seen.filter(({ method, path }) => {
        const here = path.split('?')[0] ?? ''
        return what === here || what === `${method} ${here}`
      }),
    revoke: () => live.clear(),
    issue,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

function send(
  response: ServerResponse,
  status: number,
  { body, headers }: { body?: unknown; headers?: Record<string, string> } = {},
): void {
  const type = body === undefined ? {} : { 'content-type': 'application/json' }
  response.writeHead(status, { ...type, ...headers })
  response.end(body === undefined || typeof body === 'string' ? body : JSON.stringify(body))
}

/** The user agrees. Returns the callback URL to which the authorization server redirects the browser. */
export async function browse(url: URL): Promise<URL> {
  const response = await fetch(url, { redirect: 'manual' })
  return new URL(response.headers.get('location') ?? '')
}
