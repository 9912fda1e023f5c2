import { once } from 'node:events'
import { createServer, request as requestOf } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A server that requires a token, and its authorization server, which accepts every code. */
export interface GuardedServer extends AsyncDisposable {
  readonly url: string
  /** Invalidates the token. The authorization server gives another one. */
  revoke(): void
}

/** Guards another server, which it disposes of. */
export async function startGuardedServer(
  inner: AsyncDisposable & { readonly url: string },
): Promise<GuardedServer> {
  let tokens = 1
  const http = createServer((request, response) => {
    const { host = '', authorization, ...others } = request.headers
    const origin = `http://${host}`
    const { pathname } = new URL(request.url ?? '/', origin)
    const json = (value: unknown): void => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    }
    if (pathname.startsWith('/.well-known/oauth-protected-resource')) {
      json({ resource: `${origin}/mcp`, authorization_servers: [origin] })
    } else if (pathname.startsWith('/.well-known/')) {
      json({
        issuer: origin,
        authorization_endpoint: `${origin}/authorize`,
        token_endpoint: `${origin}/token`,
        response_types_supported: ['code'],
        code_challenge_methods_supported: ['S256'],
        token_endpoint_auth_methods_supported: ['none'],
      })
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
  http.listen(0, '127.0.0.1')
  await once(http, 'listening')
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    revoke: () => void tokens++,
    async [Symbol.asyncDispose]() {
      http.closeAllConnections()
      http.close()
      await inner[Symbol.asyncDispose]()
    },
  }
}
