import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { Server, Socket } from 'node:net'

export interface Gate extends AsyncDisposable {
  readonly url: string
  /** Breaks all connections, and refuses new ones. */
  close(): Promise<void>
  open(): Promise<void>
}

/** Forwards connections to a server while it is open. While it is closed, its port refuses connections. */
export async function startGate(url: string): Promise<Gate> {
  const target = Number(new URL(url).port)
  const sockets = new Set<Socket>()
  const listen = async (port: number): Promise<Server> => {
    const server = createServer((socket) => {
      const other = connect(target, '127.0.0.1')
      for (const one of [socket, other]) {
        sockets.add(one)
        one.on('error', () => {})
        one.on('close', () => (one === socket ? other : socket).destroy())
      }
      socket.pipe(other).pipe(socket)
    }).listen(port, '127.0.0.1')
    await once(server, 'listening')
    return server
  }
  let server = await listen(0)
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The gate has no port')
  const { port } = address
  const close = async (): Promise<void> => {
    const closed = once(server, 'close')
    server.close()
    for (const socket of sockets) socket.destroy()
    sockets.clear()
    await closed
  }
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    close,
    async open() {
      server = await listen(port)
    },
    async [Symbol.asyncDispose]() {
      if (server.listening) await close()
    },
  }
}
