import { createServer } from 'node:net'

/**
 * Returns a port of 127.0.0.1 on which no process listens now. Another process may take it first, so use port 0
 * if the server accepts it.
 *
 * @example
 * ```ts
 * import { freePort } from '@x/mcp-testing'
 *
 * const unreachable = `http://127.0.0.1:${await freePort()}/mcp` // nothing listens there
 * ```
 */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => {
        if (address === null || typeof address === 'string')
          reject(new TypeError('Not a TCP server'))
        else resolve(address.port)
      })
    })
  })
}
