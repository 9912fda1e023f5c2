import { request as requestOf, type IncomingMessage } from 'node:http'
import { startTestServer } from './loopback-server.ts'

/** A server that requires a token, and its authorization server, on one port. */
export interface GuardedServer extends AsyncDisposable {
  readonly url: string
  /** Forms of all token requests so far. */
  readonly tokenRequests: readonly URLSearchParams[]
  /** Invalidates the token. The authorization server gives another one. */
  revoke(): void
  /** Number of codes for other devices so far. The last one is `CODE-<number>`, and its secret `device-secret-<number>`. */
  readonly codes: number
  /** Grants or denies the last code, as a user does. Until then, token requests are answered with `authorization_pending`. */
  enterCode(how: 'grant' | 'deny'): void
  /** Ends this server and the guarded one, as `await using` does. */
  close(): Promise<void>
}

/**
 * Guards another MCP server, which it disposes of: requests need a token. Its authorization server gives one for every
 * grant, such as an authorization code, a code for another device (RFC 8628) or a token exchange (RFC 8693). It checks no
 * client, and has no page on which a user signs in.
 *
 * @example
 * ```ts
 * import { startGuardedServer, startModernServer } from '@x/mcp-testing'
 *
 * await using server = await startGuardedServer(await startModernServer())
 * // … a client with deviceOAuth({ onCode: () => server.enterCode('grant') }) calls server.url …
 * server.revoke() // its next request is refused, and it gets a new token
 * ```
 */
export async function startGuardedServer(
  inner: AsyncDisposable & { readonly url: string },
): Promise<GuardedServer> {
  let tokens = 1
  let codes = 0
  let refusal: string | undefined
  const tokenRequests: URLSearchParams[] = []
  const token = async (request: IncomingMessage, json: AnswerJson): Promise<void> => {
    tokenRequests.push(await formOf(request))
    if (refusal !== undefined) return json({ error: refusal }, 400)
    const issued_token_type = 'urn:ietf:params:oauth:token-type:access_token'
    json({ access_token: `granted-${tokens}`, token_type: 'Bearer', issued_token_type })
  }
  const http = await startTestServer((request, response) => {
    const { host = '', authorization, ...others } = request.headers
    const origin = `http://${host}`
    const { pathname } = new URL(request.url ?? '/', origin)
    const json: AnswerJson = (value, status = 200) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    }
    if (pathname.startsWith('/.well-known/oauth-protected-resource')) {
      json({ resource: `${origin}/mcp`, authorization_servers: [origin] })
    } else if (pathname.startsWith('/.well-known/')) {
      json({
        issuer: origin,
        authorization_endpoint: `${origin}/authorize`,
        device_authorization_endpoint: `${origin}/device`,
        token_endpoint: `${origin}/token`,
        response_types_supported: ['code'],
        code_challenge_methods_supported: ['S256'],
        token_endpoint_auth_methods_supported: ['none'],
      })
    } else if (pathname === '/device') {
      refusal = 'authorization_pending'
      json({
        device_code: `device-secret-${++codes}`,
        user_code: `CODE-${codes}`,
        verification_uri: `${origin}/activate`,
        verification_uri_complete: `${origin}/activate?user_code=CODE-${codes}`,
        expires_in: 600,
      })
    } else if (pathname === '/token') {
      token(request, json).catch(() => response.destroy()) // the client has left
    } else if (authorization === `Bearer granted-${tokens}`) {
      const { method } = request
      const forwarded = requestOf(inner.url, { method, headers: others }, (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers)
        response.flushHeaders()
        answer.on('error', () => response.destroy()).pipe(response)
      })
      forwarded.on('error', () => response.destroy())
      response.on('close', () => forwarded.destroy())
      request.pipe(forwarded)
    } else {
      const metadata = `${origin}/.well-known/oauth-protected-resource/mcp`
      response
        .writeHead(401, { 'www-authenticate': `Bearer resource_metadata="${metadata}"` })
        .end()
    }
  })
  const close = async (): Promise<void> => {
    await http.close()
    await inner[Symbol.asyncDispose]()
  }
  return {
    url: http.url,
    tokenRequests,
    revoke: () => void tokens++,
    get codes() {
      return codes
    },
    enterCode: (how) => void (refusal = how === 'deny' ? 'access_denied' : undefined),
    close,
    [Symbol.asyncDispose]: close,
  }
}

type AnswerJson = (value: unknown, status?: number) => void

async function formOf(request: IncomingMessage): Promise<URLSearchParams> {
  let body = ''
  for await (const chunk of request.setEncoding('utf8')) body += String(chunk)
  return new URLSearchParams(body)
}
