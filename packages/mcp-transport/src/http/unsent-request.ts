import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'

/** Errors of connections that ended before the operating system had taken the whole request. */
const unsent = new WeakSet<object>()

/**
 * Whether the connection ended while a part of the request was still on this side. The server cannot have the
 * whole request then: its JSON is cut off, and nothing was executed.
 */
export function wasUnsent(error: unknown): boolean {
  return typeof error === 'object' && error !== null && unsent.has(error)
}

/**
 * Looks at how a connection ends. To be called before undici gets the socket, so that this hears of an end
 * first. `bytesWritten` says nothing here: it counts what was handed to libuv, also if the write fails.
 * Nothing is concluded on Bun, whose sockets are not those of libuv: such calls stay unknown.
 */
export function watchForUnsent(socket: Socket): void {
  if (process.versions['bun'] !== undefined) return
  // A TLS socket also writes for itself, such as alerts: there, only bytes that still wait are a proof.
  const isPlain = !(socket instanceof TLSSocket)
  socket.on('error', (error) => {
    const isWriteRefused = isPlain && 'syscall' in error && error.syscall === 'write'
    if (isWriteRefused || socket.writableLength > 0) unsent.add(error)
  })
  socket.on('end', () => {
    if (socket.writableLength === 0) return
    socket.destroy(new Error('The server closed the connection before it had the whole request'))
  })
}
