import { createServer } from 'node:http'
import type { Server } from 'node:http'
import { AuthError } from '../auth-error.ts'

export interface LoopbackRedirectOptions {
  /** Tried first; 0 for any free one. */
  readonly port: number
  /** Whether another port will do. */
  readonly isPortFixed: boolean
  readonly path: string
  /** Shown to the user who comes back. */
  readonly page: string
}

/** A listener on 127.0.0.1 that one browser comes back to (RFC 8252, section 7.3). */
export interface LoopbackRedirect extends AsyncDisposable {
  readonly port: number
  /**
   * What came back for this `state`; other visitors are turned away.
   *
   * @throws AuthError `TIMEOUT`
   */
  callback(state: string, wait: { readonly ms: number; readonly signal: AbortSignal }): Promise<URL>
}

export async function listenForRedirect(
  options: LoopbackRedirectOptions,
): Promise<LoopbackRedirect> {
  const { port, isPortFixed, path, page } = options
  let expected: { state: string; found: (url: URL) => void } | undefined
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://127.0.0.1')
    const isCallback = url.searchParams.has('code') || url.searchParams.has('error')
    if (request.method !== 'GET' || url.pathname !== path || !isCallback) {
      response.writeHead(404, PAGE_HEADERS).end('Not here.')
      return
    }
    if (expected === undefined || url.searchParams.get('state') !== expected.state) {
      response.writeHead(400, PAGE_HEADERS).end('This is the answer to another question.')
      return
    }
    const { found } = expected
    response.once('close', () => found(url)) // also if the browser did not care to read it
    response.writeHead(200, PAGE_HEADERS).end(page)
  })
  server.requestTimeout = 10_000
  const used = await listen(server, port).catch((error: unknown) => {
    if (isPortFixed || port === 0) throw error
    return listen(server, 0) // somebody else has it by now
  })
  server.unref()
  return {
    port: used,
    callback: (state, { ms, signal }) =>
      new Promise<URL>((resolve, reject) => {
        const late = (): void => settle(() => reject(notBack(ms)))
        const stop = (): void => settle(() => reject(signal.reason))
        const timer = setTimeout(late, ms)
        const settle = (act: () => void): void => {
          clearTimeout(timer)
          signal.removeEventListener('abort', stop)
          expected = undefined
          act()
        }
        expected = { state, found: (url) => settle(() => resolve(url)) }
        if (signal.aborted) stop()
        else signal.addEventListener('abort', stop, { once: true })
      }),
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      server.closeAllConnections()
      await closed
    },
  }
}

const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'",
  'referrer-policy': 'no-referrer',
  connection: 'close',
}

function listen(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', () => {
      server.off('error', reject)
      const address = server.address()
      if (address === null || typeof address === 'string') reject(new TypeError('Not a TCP server'))
      else resolve(address.port)
    })
  })
}

function notBack(ms: number): AuthError {
  return new AuthError('TIMEOUT', `Nobody came back from the authorization server within ${ms} ms`)
}
