import { createServer } from 'node:net'

/**
 * A port of 127.0.0.1 on which nothing listens now. Another process may take it before you do: where
 * a server can listen on port 0 by itself, let it.
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
