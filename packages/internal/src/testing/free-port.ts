import { createServer } from 'node:net'

/** Below the ports that the operating system gives to servers on port 0: from 32768 on Linux, else from 49152. */
const FIRST = 20_000
const LAST = 32_767
/** More refusals in a row mean that the cause is not a port that is taken. */
const MAX_REFUSED = 100

/** A random start for each process, which then counts: two calls of a process give different ports. */
let next = FIRST + Math.floor(Math.random() * (LAST - FIRST))

/**
 * Returns a port of 127.0.0.1 on which no process listens now. No server that listens on port 0 gets it later. Another
 * process may take it on purpose, so use port 0 if the server accepts it.
 *
 * @example
 * ```ts
 * import { freePort } from '@x/mcp-testing'
 *
 * const unreachable = `http://127.0.0.1:${await freePort()}/mcp` // nothing listens there
 * ```
 */
export async function freePort(): Promise<number> {
  for (let refused = 0; ; refused++) {
    const port = next
    next = next === LAST ? FIRST : next + 1
    try {
      await bind(port)
      return port
    } catch (error) {
      if (refused === MAX_REFUSED) throw error
    }
  }
}

/** Listens for a moment. */
async function bind(port: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const server = createServer()
  server.once('error', reject)
  server.listen(port, '127.0.0.1', () => server.close(() => resolve()))
  await promise
}
