import { once } from 'node:events'
import { createServer } from 'node:http'
import type { RequestListener } from 'node:http'

/** Listens on a free port of this machine. @returns the port */
export async function listen(listener: RequestListener): Promise<number> {
  const server = createServer({ keepAliveTimeout: 65_000 }, listener)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (typeof address !== 'object' || address === null) throw new Error('Listens on no port')
  return address.port
}
