import { once } from 'node:events'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { nowUs } from './now-us.ts'

/** A connection whose answer does not end: a stream that listens, or a call that is left alone. */
export class StreamConnection {
  readonly #socket: Socket
  #received = ''
  #awaited: { readonly text: string; readonly found: (atUs: number) => void } | undefined

  constructor(socket: Socket) {
    this.#socket = socket
    socket.setEncoding('latin1')
    socket.on('data', (text: string) => {
      this.#received += text
      this.#look()
    })
    socket.on('error', () => undefined) // servers that stop reset what is open
  }

  /** @param request whole, in ASCII */
  static async open(port: number, request: string): Promise<StreamConnection> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    await once(socket, 'connect')
    const stream = new StreamConnection(socket)
    socket.write(request, 'latin1')
    return stream
  }

  /** Resolves to when a text had come that did not come before, by the shared clock. One at a time. */
  receives(text: string): Promise<number> {
    return new Promise((found, reject) => {
      this.#awaited = { text, found }
      this.#socket.once('close', () => reject(new Error(`A stream ended before ${text}`)))
      this.#look()
    })
  }

  /** How often a text came since the last one that was awaited. */
  times(text: string): number {
    return this.#received.split(text).length - 1
  }

  /** Leaves without a word. */
  drop(): void {
    this.#socket.destroy()
  }

  #look(): void {
    const awaited = this.#awaited
    if (awaited === undefined) return
    const at = this.#received.indexOf(awaited.text)
    if (at === -1) return
    this.#received = this.#received.slice(at + awaited.text.length)
    this.#awaited = undefined
    this.#socket.removeAllListeners('close')
    awaited.found(nowUs())
  }
}
