import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { startModernServer, type ModernServer } from '@x/mcp-testing'

/** A server that requires a token, and its authorization server, which accepts every code. */
export interface GuardedServer extends AsyncDisposable {
  readonly url: string
  /** The server without the check of tokens. */
  readonly inner: ModernServer
}

export async function startGuardedServer(): Promise<GuardedServer> {
  const inner = await startModernServer()
  const http = createServer((request, response) => {
    const { host = '', authorization } = request.headers
    const origin = `http://${host}`
    const { pathname } = new URL(request.url ?? '/', origin)
    const json = (value: unknown): void => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    }
    const forward = async (): Promise<void> => {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      const headers = Object.entries(request.headers).flatMap(([name, value]) =>
        typeof value === 'string' &&
        (name.startsWith('mcp-') || /^(accept|content-type)$/.test(name))
          ? [[name, value] as [string, string]]
          : [],
      )
      const answer = await fetch(inner.url, {
        method: 'POST',
        headers,
        body: Buffer.concat(chunks),
      })
      const type = answer.headers.get('content-type') ?? 'text/plain'
      response.writeHead(answer.status, { 'content-type': type }).end(await answer.text())
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
      json({ access_token: 'granted', token_type: 'Bearer' })
    } else if (authorization !== 'Bearer granted') {
      const metadata = `${origin}/.well-known/oauth-protected-resource/mcp`
      response
        .writeHead(401, { 'www-authenticate': `Bearer resource_metadata="${metadata}"` })
        .end()
    } else if (request.method === 'POST') {
      forward().catch(() => response.destroy())
    } else {
      response.writeHead(405).end()
    }
  })
  http.listen(0, '127.0.0.1')
  await once(http, 'listening')
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    inner,
    async [Symbol.asyncDispose]() {
      http.closeAllConnections()
      http.close()
      await inner[Symbol.asyncDispose]()
    },
  }
}
