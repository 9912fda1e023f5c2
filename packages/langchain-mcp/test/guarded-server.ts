import { request as requestOf } from 'node:http'
import { startTestServer } from '@x/mcp-testing'

/** A server that requires a token, and its authorization server, which accepts every code. */
export interface GuardedServer extends AsyncDisposable {
  readonly url: string
  /** Invalidates the token. The authorization server gives another one. */
  revoke(): void
  /** Number of codes for other devices so far. The last one is `CODE-<number>`, and its secret `device-secret-<number>`. */
  readonly codes: number
  /** What the user does with the last code. */
  enterCode(how: 'grant' | 'deny'): void
}

/** Guards another server, which it disposes of. */
export async function startGuardedServer(
  inner: AsyncDisposable & { readonly url: string },
): Promise<GuardedServer> {
  let tokens = 1
  let codes = 0
  let refusal: string | undefined
  const http = await startTestServer((request, response) => {
    const { host = '', authorization, ...others } = request.headers
    const origin = `http://${host}`
    const { pathname } = new URL(request.url ?? '/', origin)
    const json = (value: unknown, status = 200): void => {
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
    } else if (pathname === '/token' && refusal !== undefined) {
      json({ error: refusal }, 400)
    } else if (pathname === '/token') {
      json({ access_token: `granted-${tokens}`, token_type: 'Bearer' })
    } else if (authorization === `Bearer granted-${tokens}`) {
      const { method } = request
      const forwarded = requestOf(inner.url, { method, headers: others }, (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers)
        response.flushHeaders()
        answer.pipe(response)
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
  return {
    url: http.url,
    revoke: () => void tokens++,
    get codes() {
      return codes
    },
    enterCode: (how) => void (refusal = how === 'deny' ? 'access_denied' : undefined),
    async [Symbol.asyncDispose]() {
      await http[Symbol.asyncDispose]()
      await inner[Symbol.asyncDispose]()
    },
  }
}
